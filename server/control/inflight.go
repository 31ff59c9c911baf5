package control

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-metrics"

	"berth/fsm"
	"berth/state"
	"berth/structs"
)

// mostInFlight is how many plans are on their way through the log at once. Each is made on the newest state, which
// does not know of the others: what two of them want of one node is seen when they are carried out, and the second
// is made anew.
const mostInFlight = 16

// flight is a plan that is proposed and has not come back.
type flight struct {
	eval    *structs.Evaluation
	began   time.Time
	oneNode bool // it is about one node of its job
	storage bool // its job uses volumes
	err     error
}

// flights are the plans on their way, by evaluation. They belong to the goroutine of the loop.
//
// Nothing looks again, when a plan is carried out, at how many allocations its job has, and at who is about to claim
// a volume. So of one job one plan is on its way, but for plans of different nodes of a job per node; and one of all
// jobs that use volumes.
type flights struct {
	aloft  map[string]flight
	landed chan flight
	crew   sync.WaitGroup
}

func newFlights() *flights {
	return &flights{aloft: map[string]flight{}, landed: make(chan flight, mostInFlight)}
}

// clear reports whether a plan may be made while the others are on their way.
func (f *flights) clear(of flight) bool {
	for _, other := range f.aloft {
		sameJob := other.eval.JobID == of.eval.JobID && other.eval.Namespace == of.eval.Namespace
		apart := other.oneNode && of.oneNode && other.eval.NodeID != of.eval.NodeID
		if sameJob && !apart || other.storage && of.storage {
			return false
		}
	}
	return len(f.aloft) < mostInFlight
}

// begin plans an evaluation on the newest state and sends the plan off. It reports false when that has to wait for
// others to come back.
func (s scheduleLoop) begin(ctx context.Context, id string, past tries, all *flights) bool {
	tx := s.Store.Read()
	eval := state.Eval(tx, id)
	if eval == nil || eval.Status != structs.EvalPending {
		return true // done along with another, or woken and blocked again
	}
	job := state.Job(tx, structs.NamespaceOr(eval.Namespace), eval.JobID)
	f := flight{eval: eval, began: s.Now(), storage: usesVolumes(job), oneNode: job != nil && !job.Stop && job.PerNode() && eval.NodeID != ""}
	if !all.clear(f) {
		return false
	}
	defer metrics.MeasureSince([]string{"control", "schedule"}, time.Now())
	plan, err := s.decide(tx, eval)
	if err != nil {
		f.err = err
		s.settle(ctx, f, past)
		return true
	}
	plan.Now = s.Now().UnixNano()
	all.aloft[id] = f
	all.crew.Go(func() {
		_, f.err = fsm.Propose(ctx, s.Proposer, fsm.PlanApply, plan)
		all.landed <- f // there is room for all
	})
	return true
}

func usesVolumes(job *structs.Job) bool {
	return job != nil && slices.ContainsFunc(job.TaskGroups, func(g *structs.TaskGroup) bool { return len(g.Volumes) > 0 })
}

// land takes note of the plans that have come back.
func (s scheduleLoop) land(ctx context.Context, past tries, all *flights) {
	for {
		select {
		case f := <-all.landed:
			delete(all.aloft, f.eval.ID)
			s.settle(ctx, f, past)
		default:
			return
		}
	}
}

// wait returns when something has changed of what tx has read, a plan has come back, or it is time.
func (s scheduleLoop) wait(ctx context.Context, tx *state.ReadTx, wake time.Time, all *flights) {
	limited, cancel := context.WithCancel(ctx)
	if !wake.IsZero() {
		limited, cancel = context.WithTimeout(ctx, max(time.Millisecond, wake.Sub(s.Now())))
	}
	defer cancel()
	if len(all.aloft) == 0 {
		_ = s.Store.Wait(limited, tx) // a change, the time or the end: each is a reason to look again
		return
	}
	var changed sync.WaitGroup
	defer changed.Wait()
	defer cancel()
	changed.Go(func() { defer cancel(); _ = s.Store.Wait(limited, tx) })
	select {
	case f := <-all.landed:
		all.landed <- f
	case <-limited.Done():
	}
}
