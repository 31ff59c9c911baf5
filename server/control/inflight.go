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

// mostInFlight is the most plans in flight at once. Each is made on the newest state, which does not
// have the others. The state rejects the second of two plans that need the same capacity of a node; it is
// made again.
const mostInFlight = 16

// proposedPlan is a plan that is proposed and has no answer yet.
type proposedPlan struct {
	eval        *structs.Evaluation
	began       time.Time
	oneNode     bool // it is for one node of its job
	usesVolumes bool // its job has volumes
	err         error
}

// inFlight holds the proposed plans, by evaluation. It belongs to the goroutine of the loop.
//
// When a plan is applied, the state checks neither the number of its job's allocations nor the volumes that
// are about to be claimed. So at most one plan of a job is in flight, except for different nodes of a system
// job, and at most one plan of all jobs that use volumes.
type inFlight struct {
	plans map[string]proposedPlan
	done  chan proposedPlan
	wg    sync.WaitGroup
}

// allows reports whether a plan may be made while the others are in flight.
func (f *inFlight) allows(p proposedPlan) bool {
	for _, other := range f.plans {
		if other.usesVolumes && p.usesVolumes {
			return false
		}

		sameJob := other.eval.JobID == p.eval.JobID &&
			other.eval.Namespace == p.eval.Namespace
		otherNode := other.oneNode &&
			p.oneNode &&
			other.eval.NodeID != p.eval.NodeID
		if sameJob && !otherNode {
			return false
		}
	}

	return len(f.plans) < mostInFlight
}

// startPlan plans an evaluation on the newest state and proposes the plan. It reports false if that has to
// wait for plans in flight.
func (s *scheduling) startPlan(ctx context.Context, id string) bool {
	tx := s.Store.Read()
	if state.SchedulerConfig(tx).PauseEvalBroker {
		return false
	}

	eval := state.Eval(tx, id)
	if eval == nil || eval.Status != structs.EvalPending {
		return true // another plan has completed it, or it is blocked again
	}

	job := state.Job(tx, structs.NamespaceOr(eval.Namespace), eval.JobID)
	p := proposedPlan{
		eval:        eval,
		began:       time.Now(),
		usesVolumes: usesVolumes(tx, job),
		oneNode: job != nil &&
			!job.Stop &&
			job.PerNode() &&
			!job.LimitsProperty() &&
			eval.NodeID != "",
	}

	if !s.allows(p) {
		return false
	}
	defer metrics.MeasureSince([]string{"control", "schedule"}, time.Now())

	plan, err := s.planEval(tx, eval)
	if err != nil {
		p.err = err
		s.settlePlan(ctx, p)
		return true
	}

	s.plans[id] = p
	metrics.SetGauge([]string{"control", "plans_in_flight"}, float32(len(s.plans)))
	s.wg.Go(func() {
		p.err = s.proposeParts(ctx, plan)
		s.done <- p // the channel holds all plans in flight
	})
	return true
}

// proposeParts proposes a plan, and its rest one after the other. It leaves out what is left of the rest once
// the evaluation is to be planned again.
func (s scheduleLoop) proposeParts(ctx context.Context, plan *structs.Plan) error {
	err := propose(ctx, s.Deps, fsm.PlanApply, plan)
	for _, part := range plan.Rest {
		if err != nil {
			return err
		}

		e := state.Eval(s.Store.Read(), plan.Eval.ID)
		if e == nil || e.Status != structs.EvalPending || e.Again != structs.EvalMore {
			return nil
		}

		// The part before it has changed the row. With the former index the state would take this part for
		// outdated.
		part.Eval.ModifyIndex = e.ModifyIndex
		part.Now = plan.Now
		err = propose(ctx, s.Deps, fsm.PlanApply, part)
	}

	return err
}

// usesVolumes reports whether a plan of a job may place allocations with volumes. While a deployment is held,
// a plan of a service job places allocations of earlier versions.
func usesVolumes(tx *state.ReadTx, job *structs.Job) bool {
	switch {
	case job == nil:
		return false
	case hasVolumes(job):
		return true
	case job.Type != structs.JobService:
		return false
	}

	for version := range state.JobVersions(tx, job.Namespace, job.ID) {
		if hasVolumes(version) {
			return true
		}
	}

	return false
}

func hasVolumes(job *structs.Job) bool {
	return slices.ContainsFunc(job.TaskGroups, func(g *structs.TaskGroup) bool {
		return len(g.Volumes) > 0
	})
}

// settleDone settles the plans that have their results.
func (s *scheduling) settleDone(ctx context.Context) {
	for {
		select {
		case p := <-s.done:
			delete(s.plans, p.eval.ID)
			metrics.SetGauge([]string{"control", "plans_in_flight"}, float32(len(s.plans)))
			s.settlePlan(ctx, p)
		default:
			return
		}
	}
}

// awaitChange returns when a row that tx has read changes, a plan has its result, or the time has come.
func (s *scheduling) awaitChange(ctx context.Context, tx *state.ReadTx, next time.Time) {
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	if !next.IsZero() {
		left := max(time.Millisecond, time.Until(next))
		timed, expire := context.WithTimeout(limited, left)
		defer expire()
		limited = timed
	}

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
