package loadshed

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/structs"
)

func newTestQueue(permits, waiting int) *Queue {
	return NewQueue(QueueConfig{
		Limit:    "tests",
		Text:     "nothing was done",
		Permits:  permits,
		Waiting:  waiting,
		Patience: time.Second,
		Soonest:  50 * time.Millisecond,
		Latest:   5 * time.Second,
	})
}

// wantRejection checks that a request was rejected, and returns its retry time.
func wantRejection(t *testing.T, err error) time.Duration {
	t.Helper()
	after := structs.RetryAfter(err)
	if !structs.IsKind(err, structs.KindUnavailable) || after < 50*time.Millisecond || after > 5*time.Second {
		t.Errorf("got %v with retry time %s, want unavailable with 50ms to 5s", err, after)
	}
	return after
}

func TestQueue_BoundsPermitsAndWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newTestQueue(2, 3)
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				leave, err := q.Enter(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(100 * time.Millisecond)
				leave()
			})
		}
		synctest.Wait()
		wantRejection(t, q.Full(0))
		_, err := q.Enter(t.Context())
		wantRejection(t, err)
		time.Sleep(150 * time.Millisecond) // two have ended, one waits
		if err := q.Full(0); err != nil {
			t.Errorf("Full rejects a request that could wait: %v", err)
		}
		all.Wait()
		if len(q.permits) != 0 || len(q.waiting) != 0 {
			t.Errorf("%d permits are taken and %d requests wait, want none", len(q.permits), len(q.waiting))
		}
	})
}

func TestQueue_RejectsAfterItsPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newTestQueue(1, 3)
		leave, err := q.Enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		_, err = q.Enter(t.Context())
		wantRejection(t, err)
		if took := time.Since(start); took != q.config.Patience {
			t.Errorf("the rejection took %s, want %s", took, q.config.Patience)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err = q.Enter(ctx)
		if !structs.IsKind(err, structs.KindUnavailable) || !strings.HasPrefix(err.Error(), "nothing was done: ") {
			t.Errorf("a request whose context ended got %v, want unavailable", err)
		}
		leave()
		leave, err = q.Enter(t.Context())
		if err != nil {
			t.Fatalf("a request with a free permit failed: %v", err)
		}
		leave()
	})
}

// TestQueue_SpreadsTheTimesOfRejectedRequests: they spread over the time in which the queue serves as many.
func TestQueue_SpreadsTheTimesOfRejectedRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newTestQueue(1, 0)
		for range 50 { // each takes 10 ms
			leave, err := q.Enter(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Millisecond)
			leave()
		}
		leave, err := q.Enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer leave()
		last := time.Duration(0)
		for n := range 100 {
			after := wantRejection(t, q.Full(0))
			if after <= last {
				t.Fatalf("request %d has retry time %s, want more than %s", n, after, last)
			}
			last = after
		}
		if last < 900*time.Millisecond || last > 1200*time.Millisecond {
			t.Errorf("the last of 100 retry times is %s, want about 1s", last)
		}
		for range 1000 {
			last = wantRejection(t, q.Full(0))
		}
		if last != q.config.Latest {
			t.Errorf("the last retry time is %s, want %s", last, q.config.Latest)
		}
	})
}

// TestQueue_CountsRejectedRequestsTogether: the queue counts them when a request ends, because to count one
// costs more than to reject it.
func TestQueue_CountsRejectedRequestsTogether(t *testing.T) {
	q := newTestQueue(1, 0)
	leave, err := q.Enter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantRejection(t, q.Full(0))
	_, err = q.Enter(t.Context())
	wantRejection(t, err)
	if n := q.full.Load(); n != 2 {
		t.Errorf("%d rejected requests are not counted yet, want 2", n)
	}
	leave()
	if n := q.full.Load(); n != 0 {
		t.Errorf("%d rejected requests are not counted, want 0", n)
	}
}
