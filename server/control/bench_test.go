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
	"berth/server/control/workqueue"
	"berth/state"
	"berth/structs"
)

// BenchmarkControllers_OneCall measures one call to a controller, with the log, while other calls wait.
func BenchmarkControllers_OneCall(b *testing.B) {
	for _, n := range []int{10, 1000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			w := newTestEnv(b)
			w.addNode("n1", true)
			w.addCreating(n, "pl")
			var made atomic.Int64
			enough := make(chan struct{})
			w.setAnswer(func(nodeCall) (any, error) {
				if made.Add(1) == int64(b.N) {
					close(enough)
				}
				return nil, unavailable()
			})
			w.Config.Retry = backoff.Backoff{
				Min: time.Nanosecond,
				Max: time.Nanosecond,
			} // so that as many wait all the time
			ctx, cancel := context.WithCancel(context.Background())
			r := controllerLoop{Deps: w.Deps}.runner()
			began := make(chan struct{})
			all := r.All
			r.All = func(tx *state.ReadTx) iter.Seq[workqueue.Key] {
				return func(yield func(workqueue.Key) bool) {
					all(tx)(yield)
					b.ResetTimer()
					close(began)
				}
			}
			ended := make(chan struct{})
			go func() { defer close(ended); r.Run(ctx) }()
			<-enough
			b.StopTimer()
			cancel()
			<-ended
		})
	}
}

// BenchmarkReaper_ReadsAChangedNode measures one change of a node in the reaper, while a number of claims
// of nodes that are down stay.
func BenchmarkReaper_ReadsAChangedNode(b *testing.B) {
	for _, n := range []int{10, 1000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			w := newTestEnv(b)
			w.addNode("n1", true)
			w.addNode("down", false)
			allocs := w.addMany(n, "down")
			put(w, fsm.NodeStatus, &structs.NodeStatusUpdate{NodeIDs: []string{"down"}, Status: structs.NodeDown})
			w.endMany(allocs)
			r := reaperLoop{w.Deps}.runner()
			began, looked := make(chan struct{}), make(chan struct{})
			r.All = func(tx *state.ReadTx) iter.Seq[workqueue.Key] {
				defer close(began)
				return reapableKeys(tx)
			}
			r.Keys = func(tx *state.ReadTx, c state.Change) iter.Seq[workqueue.Key] {
				defer func() { looked <- struct{}{} }()
				return reapKeys(tx, c)
			}
			defer start(r.Run)()
			<-began
			event := map[string][]*structs.NodeEvent{"n1": {{Message: "x"}}}
			for b.Loop() {
				put(w, fsm.NodeEvents, &structs.NodeEventsRequest{Events: event})
				<-looked
			}
		})
	}
}
