package query

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/state"
	"berth/structs"
)

// TestSlowLimiter_BoundsSlowQueries: a bounded number run at the same time, with an idle time after each. A
// quick query does not wait.
func TestSlowLimiter_BoundsSlowQueries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newSlowLimiter()
		began := time.Now()
		queries := 4 * cap(l)
		var wg sync.WaitGroup
		for range queries {
			wg.Go(func() {
				done, err := l.acquire(t.Context(), time.Second)
				if err != nil {
					t.Error(err)
				}
				time.Sleep(time.Second)
				done(time.Second)
			})
		}
		synctest.Wait()
		done, err := l.acquire(t.Context(), slowQuery-1)
		if err != nil || time.Since(began) != 0 {
			t.Errorf("a quick query waited %v, %v", time.Since(began), err)
		}
		done(slowQuery)
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.acquire(short, time.Second); err == nil {
			t.Error("a query ran after its caller had left")
		}
		wg.Wait()
		took := time.Since(began)
		want := 3*(1+idleTimes)*time.Second + time.Second
		if took != want {
			t.Errorf("%d queries ended after %v, want %v", queries, took, want)
		}
		time.Sleep(idleTimes*time.Second + 1)
		synctest.Wait()
		if len(l) != cap(l) {
			t.Errorf("got %d tokens at the end, want %d", len(l), cap(l))
		}
	})
}

// The server turns the panic of a read into an error. All slow queries would wait for its token from then on.
func TestWatch_ReturnsTheTokenOfAReadThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := state.New()
		registerNode(s, "a", "one")
		e := NewEngine(s, leader{})
		runs := 0
		read := func(tx *state.ReadTx) (any, error) {
			node := state.Node(tx, "a")
			runs++
			if runs == 2 {
				panic("a fault")
			}
			time.Sleep(slowQuery)
			return &structs.NodeGetResponse{Node: &structs.NodeDetail{Node: *node}}, nil
		}
		ended := make(chan any, 1)
		go func() {
			defer func() { ended <- recover() }()
			opts := structs.QueryOptions{MinIndex: s.Index()}
			_, _, _ = Watch(t.Context(), e, Request{Method: "Node.Get", Body: &structs.NodeGetRequest{QueryOptions: opts}}, read)
		}()
		time.Sleep(2 * slowQuery)
		synctest.Wait()
		registerNode(s, "a", "two")
		if fault := <-ended; fault == nil {
			t.Fatal("the second read did not panic")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if len(e.slow) != cap(e.slow) {
			t.Errorf("%d tokens of %d are left", len(e.slow), cap(e.slow))
		}
	})
}
