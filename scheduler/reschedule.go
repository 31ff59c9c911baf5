package scheduler

import (
	"time"

	"berth/state"
	"berth/structs"
)

// perNodePolicy is that of system jobs, which have none of their own: what belongs on a node comes back
// there for ever, ever more slowly while it keeps failing.
var perNodePolicy = &structs.ReschedulePolicy{Delay: 10 * time.Second, MaxDelay: 5 * time.Minute,
	DelayFunction: structs.RescheduleExponential, Unlimited: true}

// keptReschedules is how many reschedulings an allocation remembers when there is no limit to them.
const keptReschedules = 10

// waiting is an allocation that ended and is to be replaced later.
type waiting struct {
	alloc *structs.Allocation
	due   int64 // UnixNano
}

// judgeEnded says what becomes of an allocation that has ended on its node although it was to run.
func (p *planner) judgeEnded(g *groupPlan, a *structs.Allocation) slot {
	s := slot{alloc: a, fate: held}
	switch {
	case a.NextAllocation != "", a.JobVersion != p.job.Version, a.ClientStatus == structs.AllocLost:
		s.fate = gone
		return s
	case p.job.Finite() && a.ClientStatus == structs.AllocComplete:
		return s
	}
	due, delay, ok := nextTry(p.policyOf(g), a)
	switch {
	case !ok:
	case a.Migrate || due <= p.now.UnixNano():
		s.fate, s.delay = reschedule, int64(delay)
	default:
		s.due = due
	}
	return s
}

func (p *planner) policyOf(g *groupPlan) *structs.ReschedulePolicy {
	if p.job.Type == structs.JobSystem {
		return perNodePolicy
	}
	return g.group.ReschedulePolicy
}

// nextTry says when an allocation that ended is to be replaced, and after which delay; false if never.
func nextTry(policy *structs.ReschedulePolicy, a *structs.Allocation) (due int64, delay time.Duration, ok bool) {
	if policy == nil || !policy.Unlimited && policy.Attempts <= 0 {
		return 0, 0, false
	}
	ended := endOf(a)
	if !policy.Unlimited && triesSince(a, ended-int64(policy.Interval)) >= policy.Attempts {
		return 0, 0, false
	}
	delay = nextDelay(policy, a, ended)
	return ended + int64(delay), delay, true
}

// endOf is when the allocation's last task ended, UnixNano.
func endOf(a *structs.Allocation) int64 {
	var last int64
	for _, t := range a.TaskStates {
		if t != nil && !t.FinishedAt.IsZero() {
			last = max(last, t.FinishedAt.UnixNano())
		}
	}
	if last == 0 {
		return a.ModifyTime
	}
	return last
}

func triesSince(a *structs.Allocation, since int64) int {
	n := 0
	if a.RescheduleTracker != nil {
		for _, e := range a.RescheduleTracker.Events {
			if e.RescheduleTime >= since {
				n++
			}
		}
	}
	return n
}

// nextDelay doubles the last delay where the policy says so, and begins anew after an allocation that
// lived longer than the longest delay.
func nextDelay(policy *structs.ReschedulePolicy, a *structs.Allocation, ended int64) time.Duration {
	if policy.DelayFunction != structs.RescheduleExponential || a.RescheduleTracker == nil || len(a.RescheduleTracker.Events) == 0 {
		return policy.Delay
	}
	if time.Duration(ended-a.CreateTime) > policy.MaxDelay {
		return policy.Delay
	}
	last := a.RescheduleTracker.Events[len(a.RescheduleTracker.Events)-1]
	return max(policy.Delay, min(2*last.Delay, policy.MaxDelay))
}

// trackerFor is what the replacement remembers of those before it.
func (p *planner) trackerFor(w *want) *structs.RescheduleTracker {
	if w.prev == nil || w.update {
		return nil
	}
	var events []*structs.RescheduleEvent
	if w.prev.RescheduleTracker != nil {
		events = append(events, w.prev.RescheduleTracker.Events...)
	}
	if w.rescheduled {
		events = append(events, &structs.RescheduleEvent{RescheduleTime: p.now.UnixNano(), PrevAllocID: w.prev.ID,
			PrevNodeID: w.prev.NodeID, Delay: time.Duration(w.delay)})
	}
	if len(events) == 0 {
		return nil
	}
	most := keptReschedules
	if policy := p.policyOf(w.plan); policy != nil && !policy.Unlimited {
		most = max(most, policy.Attempts)
	}
	return &structs.RescheduleTracker{Events: events[max(0, len(events)-most):]}
}

// followUp makes one evaluation for the first of the allocations that are to be replaced later and have
// none yet; when it comes, it makes one for the next.
func (p *planner) followUp() {
	var f *structs.Evaluation
	for _, w := range p.delayed {
		if p.isFollowed(w) {
			continue
		}
		if f == nil {
			f = p.later(w.due)
			p.plan.Followups = append(p.plan.Followups, f)
		}
		f.WaitUntil = min(f.WaitUntil, w.due)
		p.plan.Update = append(p.plan.Update, &structs.PlanUpdate{AllocID: w.alloc.ID, FollowupEvalID: f.ID})
	}
}

// later is an evaluation of the job, as far as this one looks at it, for a time.
func (p *planner) later(due int64) *structs.Evaluation {
	return &structs.Evaluation{ID: structs.NewID(), Namespace: p.ns, Priority: p.job.Priority, Type: p.job.Type,
		TriggeredBy: structs.TriggerScheduled, JobID: p.job.ID, NodeID: p.scope, JobModifyIndex: p.job.JobModifyIndex,
		Status: structs.EvalPending, WaitUntil: due, PreviousEval: p.eval.ID, CreateTime: p.now.UnixNano(), ModifyTime: p.now.UnixNano()}
}

// isFollowed reports whether an evaluation is to come for the allocation, in time or early.
func (p *planner) isFollowed(w waiting) bool {
	f := state.Eval(p.tx, w.alloc.FollowupEvalID)
	return f != nil && f.ID != p.eval.ID && f.Status == structs.EvalPending && f.WaitUntil <= w.due
}
