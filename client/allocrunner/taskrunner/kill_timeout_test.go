package taskrunner

import (
	"testing"
	"time"

	"berth/structs"
)

func TestKillTimeout_IsBoundedByTheNode(t *testing.T) {
	for _, c := range []struct{ own, most, want time.Duration }{
		{7 * time.Second, 30 * time.Second, 7 * time.Second},
		{time.Hour, 30 * time.Second, 30 * time.Second},
		{time.Hour, 0, time.Hour},
		{0, 30 * time.Second, structs.DefaultKillTimeout},
		{0, time.Second, time.Second},
	} {
		b := &builder{shared: &Shared{MaxKillTimeout: c.most}}
		got := b.killTimeout(&structs.Task{KillTimeout: c.own})
		if got != c.want {
			t.Errorf("own %s, of the node %s: got %s, want %s", c.own, c.most, got, c.want)
		}
	}
}
