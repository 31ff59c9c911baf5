package control

import (
	"context"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"
	"time"

	"berth/fsm"
	"berth/internal/backoff"
	"berth/state"
	"berth/structs"
)

// BenchmarkACall is the price of one call to a controller, the log included, while so many more wait.
func BenchmarkACall(b *testing.B) {
	for _, n := range []int{10, 1000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			w := newWorld(b)
			w.addNode("n1", true)
			w.addCreating(n, "pl")
			var made atomic.Int64
			enough := make(chan struct{})
			w.answers(func(nodeCall) (any, error) {
				if made.Add(1) == int64(b.N) {
					close(enough)
				}
				return nil, unavailable()
			})
			w.Config.Retry = backoff.Backoff{Min: time.Nanosecond, Max: time.Nanosecond} // so that as many wait all the time
			ctx, cancel := context.WithCancel(context.Background())
			r := controllerLoop{Deps: w.Deps}.runner()
			began := make(chan struct{})
			all := r.all
			r.all = func(tx *state.ReadTx) iter.Seq[callKey] {
				return func(yield func(callKey) bool) {
					all(tx)(yield)
					b.ResetTimer()
					close(began)
				}
			}
			ended := make(chan struct{})
			go func() { defer close(ended); r.run(ctx) }()
			<-enough
			b.StopTimer()
			cancel()
			<-ended
		})
	}
}

// BenchmarkALookOfTheReaper is the price for it of one node's change, while so many claims of nodes that are down
// stay.
func BenchmarkALookOfTheReaper(b *testing.B) {
	for _, n := range []int{10, 1000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			w := newWorld(b)
			w.addNode("n1", true)
			w.addNode("down", false)
			allocs := w.addMany(n, "down")
			put(w, fsm.NodeStatus, &structs.NodeStatusUpdate{NodeIDs: []string{"down"}, Status: structs.NodeDown})
			w.endMany(allocs)
			r := reaperLoop{w.Deps}.runner()
			now := &running[reapKey]{runner: r, queue: newQueue[reapKey](r.retry), feed: w.Store.Subscribe(keptChanges, r.topics...)}
			defer now.feed.Close()
			now.lookAtAll(w.Store.Read())
			event := map[string][]*structs.NodeEvent{"n1": {{Message: "x"}}}
			for b.Loop() {
				b.StopTimer()
				put(w, fsm.NodeEvents, &structs.NodeEventsRequest{Events: event})
				b.StartTimer()
				now.catchUp(context.Background(), nil)
				now.ripen(time.Now())
				now.fill(context.Background())
			}
		})
	}
}
