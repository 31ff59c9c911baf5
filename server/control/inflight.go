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

// mostInFlight is how many plans are in flight at once. Each is made on the newest state, which does not
// know the others. The state refuses the second of two plans that want the same capacity of a node; it is
// made again.
const mostInFlight = 16

// proposedPlan is a plan that is proposed and has no answer yet.
type proposedPlan struct {
	eval        *structs.Evaluation
	began       time.Time
	oneNode     bool // it is about one node of its job
	usesVolumes bool // its job does
	err         error
}

// inFlight holds the proposed plans, by evaluation. It belongs to the goroutine of the loop.
//
// When a plan is applied, the state checks neither how many allocations its job has nor which volumes are
// about to be claimed. So one plan of a job is in flight, but for plans of different nodes of a system
// job; and one plan of all jobs that use volumes.
type inFlight struct {
	plans map[string]proposedPlan
	done  chan proposedPlan
	wg    sync.WaitGroup
}

// allows reports whether a plan may be made while the others are in flight.
func (f *inFlight) allows(p proposedPlan) bool {
	for _, other := range f.plans {
		sameJob := other.eval.JobID == p.eval.JobID && other.eval.Namespace == p.eval.Namespace
		otherNode := other.oneNode && p.oneNode && other.eval.NodeID != p.eval.NodeID
		if sameJob && !otherNode || other.usesVolumes && p.usesVolumes {
			return false
		}
	}
	return len(f.plans) < mostInFlight
}

// startPlan plans an evaluation on the newest state and proposes the plan. It reports false when that has to
// wait for plans in flight.
func (s *scheduling) startPlan(ctx context.Context, id string) bool {
	tx := s.Store.Read()
	eval := state.Eval(tx, id)
	if eval == nil || eval.Status != structs.EvalPending {
		return true // another plan has completed it, or it is blocked again
	}
	job := state.Job(tx, structs.NamespaceOr(eval.Namespace), eval.JobID)
	p := proposedPlan{
		eval:        eval,
		began:       time.Now(),
		usesVolumes: usesVolumes(job),
		oneNode:     job != nil && !job.Stop && job.PerNode() && eval.NodeID != "",
	}
	if !s.allows(p) {
		return false
	}
	defer metrics.MeasureSince([]string{"control", "schedule"}, time.Now())
	plan, err := s.decide(tx, eval)
	if err != nil {
		p.err = err
		s.settle(ctx, p)
		return true
	}
	plan.Now = time.Now().UnixNano()
	s.plans[id] = p
	s.wg.Go(func() {
		_, p.err = fsm.Propose(ctx, s.Proposer, fsm.PlanApply, plan)
		s.done <- p // the channel holds all plans in flight
	})
	return true
}

func usesVolumes(job *structs.Job) bool {
	hasVolumes := func(g *structs.TaskGroup) bool { return len(g.Volumes) > 0 }
	return job != nil && slices.ContainsFunc(job.TaskGroups, hasVolumes)
}

// settleDone settles the plans that have been answered.
func (s *scheduling) settleDone(ctx context.Context) {
	for {
		select {
		case p := <-s.done:
			delete(s.plans, p.eval.ID)
			s.settle(ctx, p)
		default:
			return
		}
	}
}

// wait returns when a row that tx has read changes, a plan has its result, or wake receives.
func (s *scheduling) wait(ctx context.Context, tx *state.ReadTx, wake time.Time) {
	limited, cancel := context.WithCancel(ctx)
	if !wake.IsZero() {
		limited, cancel = context.WithTimeout(ctx, max(time.Millisecond, time.Until(wake)))
	}
	defer cancel()
	var changed sync.WaitGroup
	defer changed.Wait()
	defer cancel()
	changed.Go(func() {
		defer cancel()
		_ = s.Store.Wait(limited, tx) // a change, the time or the end: each requires a new check
	})
	select {
	case p := <-s.done:
		s.done <- p
	case <-limited.Done():
	}
}
