package workqueue

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/backoff"
	"berth/structs"
)

// TestLoads_CountWhatCouldBegin: a step counts from the moment at which its time has come, until it begins. A
// change of its order does not make it younger.
func TestLoads_CountWhatCouldBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(backoff.Backoff{Min: time.Second, Max: time.Minute})
		key := func(id string) Key { return Key{Key: [3]string{id}} }
		begin := time.Now()
		expect := func(when string, working, waiting int, since time.Time) {
			t.Helper()
			got := q.loads()["g"]
			if got.Working != working || got.Waiting != waiting || !got.Since.Equal(since) {
				t.Errorf("%s the load is %+v, want %d, %d and %s", when, got, working, waiting, since)
			}
		}
		expect("without a step", 0, 0, time.Time{})

		step := Step{Op: "op", Group: "g"}
		q.update(key("a"), step, time.Now())
		time.Sleep(time.Second)
		q.update(key("b"), step, time.Now())
		q.update(key("other"), Step{Op: "op", Group: "h"}, time.Now())
		expect("with two steps", 0, 2, begin)
		step.Rank = 1
		q.update(key("a"), step, time.Now())
		expect("with another rank", 0, 2, begin)

		awaits := Step{Op: "op", Group: "g", Awaits: []string{"signal"}}
		q.update(key("c"), awaits, time.Now())
		expect("with one that awaits a signal", 0, 2, begin)
		awaits.Counts = true
		q.update(key("c"), awaits, time.Now())
		expect("with one that counts", 0, 3, begin)

		later := Step{Op: "op", Group: "g", Due: time.Now().Add(time.Minute)}
		q.update(key("d"), later, time.Now())
		expect("with a later one", 0, 3, begin)
		for _, id := range []string{"a", "b", "c"} {
			q.update(key(id), Step{}, time.Now())
		}
		expect("without the earlier ones", 0, 0, time.Time{})
		time.Sleep(time.Minute)
		q.promoteDue(time.Now())
		expect("when its time has come", 0, 1, time.Now())
		q.beginStep(q.groups["g"].first())
		expect("when it has begun", 1, 0, time.Time{})
	})
}

// TestLoads_ReadEndsWithoutARunner: the error is unavailable.
func TestLoads_ReadEndsWithoutARunner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := NewLoads().Read(ctx)
		if !structs.IsKind(err, structs.KindUnavailable) {
			t.Errorf("got %v", err)
		}
	})
}
