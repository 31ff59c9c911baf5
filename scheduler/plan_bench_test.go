package scheduler

import (
	"testing"
	"time"

	"berth/bench/shape"
	"berth/state"
	"berth/structs"
	"berth/test/kit"
)

// BenchmarkPlanApply applies the plans of the jobs of BenchmarkSched, without the work of the scheduler. The
// benchmark BenchmarkTreeOfPlan of internal/mvcc is its lower bound.
func BenchmarkPlanApply(b *testing.B) { eachSched(b, benchPlanApply) }

func benchPlanApply(b *testing.B, work shape.SchedWork, n int) {
	plans := planWork(b, work, n)
	m := kit.BeginMeter(b)
	placed := 0
	for b.Loop() {
		m.Pause()
		s := registerWork(b, work, n)
		m.Resume()
		for _, p := range plans {
			s.write(func(tx *state.WriteTx) error { return state.PlanApply(tx, p) })
		}
		m.Pause()
		placed, _ = s.count()
		m.Resume()
		m.Round()
	}
	if want := work.Allocations(n); placed != want {
		b.Fatalf("%d allocations are placed, want %d", placed, want)
	}
	m.End(placed)
}

// registerWork returns a store with a fleet and the jobs of a work. Each call makes the same rows.
func registerWork(b *testing.B, work shape.SchedWork, n int) *schedStore {
	s := &schedStore{b: b, s: state.New()}
	s.fill(0, n)
	for i := range work.Jobs {
		j := schedJob(work, i)
		s.write(func(tx *state.WriteTx) error {
			return state.JobRegister(tx, &structs.JobRegisterRequest{Job: j, Eval: schedEval(j, i)})
		})
	}
	return s
}

// planWork returns the plans that place a work on a fleet, in their order.
func planWork(b *testing.B, work shape.SchedWork, n int) (plans []*structs.Plan) {
	s := registerWork(b, work, n)
	for i := range work.Jobs {
		e := schedEval(schedJob(work, i), i)
		for e.Status == structs.EvalPending {
			tx := s.s.Read()
			p, err := process(tx, state.Eval(tx, e.ID), time.Unix(1, 0), options{enough: *schedSample})
			if err != nil {
				b.Fatal(err)
			}
			plans = append(append(plans, p), p.Rest...)
			e = s.apply(p)
		}
	}
	return plans
}
