package control

import (
	"fmt"
	"testing"
	"time"

	"berth/fsm"
	"berth/state"
	"berth/structs"
)

// pending adds n evaluations that are ready, and n for later.
func (w *testEnv) pending(n int) {
	w.t.Helper()
	update := &structs.EvalUpdateRequest{}
	for i := range n {
		for _, later := range []int64{0, time.Now().Add(time.Hour).UnixNano()} {
			update.Evals = append(update.Evals, &structs.Evaluation{
				ID:        fmt.Sprint("e", i, " ", later),
				JobID:     fmt.Sprint("j", i),
				Priority:  1 + i%100,
				WaitUntil: later,
			})
		}
	}
	put(w, fsm.EvalUpdate, update)
}

// The cost does not grow with the evaluations that are pending or wait for a time.
func TestNextEvals_ReadsOnlyTheEvaluationsItReturns(t *testing.T) {
	cost := func(n int) float64 {
		w := newTestEnv(t)
		w.pending(n)
		return testing.AllocsPerRun(10, func() {
			at := instant{time.Now(), time.Now()}
			if queue, _ := nextEvals(w.Store.Read(), backoffs{}, at, 64); len(queue) != 64 {
				t.Errorf("%d are due", len(queue))
			}
		})
	}
	few, many := cost(100), cost(10_000)
	t.Logf("%.0f allocations of 100, %.0f of 10,000", few, many)
	if many > 2*few+50 {
		t.Errorf("%.0f allocations of 100, %.0f of 10,000", few, many)
	}
}

func BenchmarkNextEvals(b *testing.B) {
	for _, n := range []int{10, 1000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			w := newTestEnv(b)
			w.pending(n)
			b.ReportAllocs()
			for b.Loop() {
				nextEvals(w.Store.Read(), backoffs{}, instant{time.Now(), time.Now()}, 64)
			}
		})
	}
}

// BenchmarkSchedule_AFleetRegisters measures the cost for each of n nodes to register one after the other,
// until a system job runs on all of them.
func BenchmarkSchedule_AFleetRegisters(b *testing.B) {
	for _, n := range []int{10, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				w := newTestEnv(b)
				w.addJob("csi", 1, 100, func(j *structs.Job) {
					j.Type = structs.JobSystem
				})
				stop := w.runLoop("schedule")
				for i := range n {
					w.addSizedNode(fmt.Sprintf("n%05d", i), 3, nil)
				}
				for done := false; !done; time.Sleep(time.Millisecond) {
					done = true
					for range state.ReadyEvals(w.Store.Read()) {
						done = false
						break
					}
				}
				stop()
				if runs := len(w.runningAllocs()); runs != n {
					b.Fatalf("job runs on %d of %d nodes", runs, n)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/node")
		})
	}
}
