package scheduler

import (
	"cmp"
	"slices"
	"time"

	"berth/state"
	"berth/structs"
)

// perNodePolicy is the policy of system jobs, which have no policy field: an allocation comes back to its
// node without limit, with a growing delay while it keeps failing.
var perNodePolicy = &structs.ReschedulePolicy{
	Delay:         10 * time.Second,
	MaxDelay:      5 * time.Minute,
	DelayFunction: structs.RescheduleExponential,
	Unlimited:     true,
}

// keptReschedules is the number of reschedules that an allocation remembers under an unlimited policy.
const keptReschedules = 10

// classifyEnded decides on an allocation that has ended on its node although it was to run.
func (p *planner) classifyEnded(g *groupPlan, a *structs.Allocation) classified {
	if a.JobVersion != p.job.Version {
		return classified{alloc: a, index: a.Index(), action: actionNone}
	}
	return p.classifyEndedAs(g, a)
}

// classifyEndedAs is classifyEnded for an allocation of the version of g.
func (p *planner) classifyEndedAs(g *groupPlan, a *structs.Allocation) classified {
	s := classified{alloc: a, index: a.Index(), action: actionHold}
	d := p.deployment
	switch {
	case a.NextAllocation != "", a.ClientStatus == structs.AllocLost, p.endedBeforeUpdate(a):
		s.action = actionNone
		return s
	case d != nil && d.Status == structs.DeploymentFailed && a.DeploymentID == d.ID:
		return s // its version does not work
	case p.job.Finite() && a.ClientStatus == structs.AllocComplete:
		return s
	}

	due, delay, ok := nextTry(p.policyOf(g), a)
	switch {
	case !ok && !a.Migrate: // an operator may want it replaced beyond its policy
	case a.Migrate || due <= p.now.UnixNano():
		s.action = actionReschedule
		s.delay = int64(delay)
	default:
		s.due = due
	}

	return s
}

// endedBeforeUpdate reports whether an allocation had ended when a plan updated it in place: it ran in an
// older version only. The health of others that end in a deployment is known.
func (p *planner) endedBeforeUpdate(a *structs.Allocation) bool {
	d := p.deployment
	return d != nil && d.Active() && a.DeploymentID == d.ID && !a.DeploymentStatus.IsKnown()
}

func (p *outlook) policyOf(g *groupPlan) *structs.ReschedulePolicy {
	if p.job.Type == structs.JobSystem {
		return perNodePolicy
	}
	return g.spec.group.ReschedulePolicy
}

// nextTry returns the time of the replacement of an ended allocation, and its delay; false for never.
func nextTry(
	policy *structs.ReschedulePolicy, a *structs.Allocation,
) (due int64, delay time.Duration, ok bool) {
	if !policy.Enabled() {
		return 0, 0, false
	}
	ended := endOf(a)
	begin := ended - int64(policy.Interval)
	if !policy.Unlimited &&
		triesSince(a, begin) >= policy.Attempts {
		return 0, 0, false
	}
	delay = nextDelay(policy, a, ended)
	return ended + int64(delay), delay, true
}

// endOf returns the time at which the allocation's last task ended, UnixNano.
func endOf(a *structs.Allocation) int64 {
	var last int64
	for _, t := range a.TaskStates {
		if t != nil && !t.FinishedAt.IsZero() {
			last = max(last, t.FinishedAt.UnixNano())
		}
	}
	return cmp.Or(last, a.ModifyTime)
}

// reschedules returns the reschedules that led to an allocation, the oldest first.
func reschedules(a *structs.Allocation) []*structs.RescheduleEvent {
	if a.RescheduleTracker == nil {
		return nil
	}
	return a.RescheduleTracker.Events
}

func triesSince(a *structs.Allocation, since int64) int {
	n := 0
	for _, e := range reschedules(a) {
		if e.RescheduleTime >= since {
			n++
		}
	}
	return n
}

// nextDelay returns the delay of the next reschedule. Delays that grow begin again after an allocation that
// lived longer than the longest delay.
func nextDelay(policy *structs.ReschedulePolicy, a *structs.Allocation, ended int64) time.Duration {
	past := reschedules(a)
	lived := time.Duration(ended - a.CreateTime)
	if !policy.DelaysGrow() ||
		len(past) == 0 ||
		lived > policy.MaxDelay {
		return policy.Delay
	}
	last := past[len(past)-1].Delay
	added := last // twice the last delay
	if policy.DelayFunction == structs.RescheduleFibonacci {
		added = delayBefore(past)
	}
	return max(policy.Delay, min(last+added, policy.MaxDelay))
}

// delayBefore returns the delay before the last one, 0 if the last one began the delays again.
func delayBefore(past []*structs.RescheduleEvent) time.Duration {
	if len(past) < 2 {
		return 0
	}
	before := past[len(past)-2].Delay
	if before > past[len(past)-1].Delay {
		return 0
	}
	return before
}

// trackerFor returns the reschedules that the replacement remembers.
func (p *outlook) trackerFor(w *placement) *structs.RescheduleTracker {
	if w.prev == nil || w.update {
		return nil
	}

	events := slices.Clone(reschedules(w.prev))
	if w.rescheduled {
		events = append(events, &structs.RescheduleEvent{
			RescheduleTime: p.now.UnixNano(),
			PrevAllocID:    w.prev.ID,
			PrevNodeID:     w.prev.NodeID,
			Delay:          time.Duration(w.delay),
		})
	}

	if len(events) == 0 {
		return nil
	}

	most := keptReschedules
	policy := p.policyOf(w.plan)
	if policy != nil && !policy.Unlimited {
		most = max(most, policy.Attempts)
	}

	oldest := max(0, len(events)-most)
	return &structs.RescheduleTracker{Events: events[oldest:]}
}

// addFollowup adds one evaluation for the first of the delayed replacements without one. That evaluation adds
// the next.
func (p *planner) addFollowup() {
	var f *structs.Evaluation
	for _, w := range p.delayed {
		if p.isFollowed(w) {
			continue
		}
		if f == nil {
			f = p.evalAt(w.due)
			p.plan.Followups = append(p.plan.Followups, f)
		}
		f.WaitUntil = min(f.WaitUntil, w.due)
		p.plan.Update = append(p.plan.Update, &structs.PlanUpdate{
			AllocID:        w.alloc.ID,
			FollowupEvalID: f.ID,
		})
	}
}

// evalAt returns an evaluation of the job, with the same scope, for a time.
func (p *planner) evalAt(due int64) *structs.Evaluation {
	e := structs.NewEval(p.job, structs.TriggerScheduled, p.now.UnixNano())
	e.ID = structs.NewID()
	e.NodeID = p.scope
	e.WaitUntil = due
	e.PreviousEval = p.eval.ID
	return e
}

// isFollowed reports whether an evaluation follows for the replacement, in time or early.
func (p *planner) isFollowed(w classified) bool {
	f := state.Eval(p, w.alloc.FollowupEvalID)
	return f != nil &&
		f.ID != p.eval.ID &&
		f.Status == structs.EvalPending &&
		f.WaitUntil <= w.due
}
