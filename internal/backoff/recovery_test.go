package backoff

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"berth/structs"
)

func TestSleepAfter_EndsWithTheRecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := structs.Unavailablef("no route")
		var r Recovery
		b := Backoff{Min: time.Second, Max: time.Hour}
		took := func(err error) time.Duration {
			begin := time.Now()
			back := r.Next()
			time.AfterFunc(500*time.Millisecond, r.Announce)
			if !b.SleepAfter(t.Context(), b.After(err), err, back) {
				t.Error("the context has ended")
			}
			return time.Since(begin)
		}
		for range 3 { // the pause is the shortest each time
			if got := took(away); got != 500*time.Millisecond {
				t.Errorf("the pause takes %s, want 500ms", got)
			}
		}
		if got := b.Next(); got != b.Min {
			t.Errorf("the next pause is %s, want %s", got, b.Min)
		}
		if got := took(structs.Busy(time.Minute, "busy")); got < time.Minute {
			t.Errorf("after %s it calls servers that have asked for a minute", got)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if b.SleepAfter(ended, time.Hour, away, nil) {
			t.Error("it goes on after the end of the context")
		}
	})
}

func TestRecovery_IsNotAnnouncedByNone(t *testing.T) {
	var none *Recovery
	if none.Next() != nil {
		t.Error("a nil recovery has a channel")
	}
	var r Recovery
	r.Announce()
	select {
	case <-r.Next():
		t.Error("an earlier announcement ends the next pause")
	default:
	}
}
