package volumes

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestSequences_AStepEndsSideWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Sequences
		done := make(chan bool, 1)
		cleanup := 500 * time.Millisecond
		go func() {
			done <- s.Aside(t.Context(), "v", func(ctx context.Context) {
				<-ctx.Done()
				time.Sleep(cleanup)
			})
		}()
		synctest.Wait()
		begin := time.Now()
		release, err := s.Acquire(t.Context(), "v", "a step")
		if err != nil || time.Since(begin) != cleanup {
			t.Errorf("the step began after %s, %v", time.Since(begin), err)
		}
		if <-done {
			t.Error("side work that was ended counts as done")
		}
		release()
	})
}

func TestSequences_AStepWaitsAMomentOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Sequences
		hold := make(chan struct{})
		go s.Aside(t.Context(), "v", func(context.Context) { <-hold })
		synctest.Wait()
		begin := time.Now()
		release, err := s.Acquire(t.Context(), "v", "a step")
		if err != nil || time.Since(begin) != yieldTime {
			t.Errorf("the step began after %s, %v", time.Since(begin), err)
		}
		release()
		if s.Aside(t.Context(), "v", func(context.Context) { t.Error("two works at once") }) {
			t.Error("side work beside another one counts as done")
		}
		close(hold)
	})
}

func TestSequences_SideWorkYields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Sequences
		works := func(key string) (did bool) {
			finished := s.Aside(t.Context(), key, func(context.Context) { did = true })
			if finished != did {
				t.Errorf("finished %t, did %t", finished, did)
			}
			return did
		}
		release, err := s.Acquire(t.Context(), "v", "a step")
		if err != nil || works("v") || !works("w") {
			t.Errorf("side work beside a step, or none on another key (%v)", err)
		}

		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() {
			_, err := s.Acquire(ctx, "v", "a second step")
			failed <- err
		}()
		next := make(chan func(), 1)
		go func() {
			release, err := s.Acquire(t.Context(), "v", "a third step")
			if err != nil {
				t.Error(err)
			}
			next <- release
		}()
		synctest.Wait()
		cancel()
		if err := <-failed; err == nil {
			t.Error("a wait has outlived its context")
		}
		release()
		release = <-next
		if works("v") {
			t.Error("side work beside the step that has waited")
		}
		release()
		if !works("v") {
			t.Error("no side work after the steps")
		}
		if len(s.steps)+len(s.aside) != 0 {
			t.Errorf("left: %v, %v", s.steps, s.aside)
		}

		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if s.Aside(ended, "v", func(context.Context) {}) {
			t.Error("side work with an ended context counts as done")
		}
	})
}
