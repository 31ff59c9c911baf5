package registry

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestRounds_AreEarlyWhenAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRounds(5 * time.Second)
		wait := func(d time.Duration) time.Duration {
			begin := time.Now()
			if !r.Wait(t.Context(), d) {
				t.Error("the wait has failed")
			}
			return time.Since(begin)
		}
		if took := wait(30 * time.Second); took < 27*time.Second || took > 30*time.Second {
			t.Errorf("nobody has asked, and the round came after %s", took)
		}

		r.Ask()
		r.Ask()
		if took := wait(30 * time.Second); took != 5*time.Second {
			t.Errorf("asked before the wait: the round came after %s", took)
		}
		if took := wait(30 * time.Second); took < 27*time.Second {
			t.Errorf("nobody has asked again, and the round came after %s", took)
		}

		time.AfterFunc(20*time.Second, r.Ask)
		if took := wait(30 * time.Second); took != 20*time.Second {
			t.Errorf("asked after 20s: the round came after %s", took)
		}
		r.Ask()
		if took := wait(time.Second); took > time.Second {
			t.Errorf("a round that is due after a second came after %s", took)
		}

		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if r.Wait(ctx, time.Minute) {
			t.Error("the wait has outlived its context")
		}
		r.Ask()
		if r.Wait(ctx, time.Minute) {
			t.Error("an early round has outlived its context")
		}
	})
}
