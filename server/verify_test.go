package server

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

func TestVerifier_SharesAnswersOfQuestionsThatBeginLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			wg      sync.WaitGroup
			asked   atomic.Int32
			answers = make(chan error)
			failed  atomic.Int32
			c       consensus
		)
		c.verifier.Propose = func(context.Context, struct{}, []struct{}) (uint64, error) {
			asked.Add(1)
			return 0, <-answers
		}
		ask := func() {
			wg.Go(func() {
				if err := c.verify(); err != nil {
					failed.Add(1)
				}
			})
		}
		ask()
		synctest.Wait()
		for range 10 {
			ask()
		}
		synctest.Wait()
		if n := asked.Load(); n != 1 {
			t.Errorf("%d questions in flight at once, want 1", n)
		}
		answers <- nil
		synctest.Wait()
		if n := asked.Load(); n != 2 {
			t.Errorf("%d questions, want a second for the calls that came during the first", n)
		}
		ask() // comes during the second: the third is for it
		synctest.Wait()
		answers <- errors.New("leadership lost")
		synctest.Wait()
		answers <- nil
		wg.Wait()
		if asked.Load() != 3 || failed.Load() != 10 {
			t.Errorf("%d questions, %d got the error of the second; want 3 and 10", asked.Load(), failed.Load())
		}
	})
}
