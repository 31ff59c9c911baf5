package membership

import (
	"testing"
	"time"

	"berth/internal/boottime"
)

// A frozen node finds calls in its connections that the servers sent before its loss.
func TestCheckCall_RejectsACallOfAnEndedEpochOrAfterTheLease(t *testing.T) {
	l := Lease{
		Grant: Grant{TTL: 10 * time.Second, Epoch: 7},
		Since: boottime.Instant(time.Hour),
	}
	within := l.Since.Add(time.Second)
	after := l.Since.Add(time.Minute)
	for _, c := range []struct {
		epoch    uint64
		now      boottime.Instant
		accepted bool
	}{
		{0, within, true},
		{6, within, false},
		{7, within, true},
		{8, within, true},
		{0, after, false},
		{7, after, false},
		{8, after, true},
	} {
		if err := l.CheckCall(c.epoch, c.now); (err == nil) != c.accepted {
			t.Errorf("a call of epoch %d, %s after the lease began: %v", c.epoch, c.now.Sub(l.Since), err)
		}
	}
}
