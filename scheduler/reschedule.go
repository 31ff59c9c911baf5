package scheduler

import (
	"berth/scheduler/place"
	"berth/scheduler/rollout"
	"berth/state/clustertime"
	"berth/structs"
)

// classifyEnded decides on an allocation that has ended on its node although it was to run.
func (p *planner) classifyEnded(g *place.Group, a *structs.Allocation) rollout.Decision {
	// Its place is free, so that the new version fills it without the delay of the old one's policy.
	if a.JobVersion != p.outlook.Job.Version {
		return rollout.Decision{Alloc: a, Index: a.Index(), Action: rollout.None}
	}
	return p.classifyEndedAs(g, a)
}

// classifyEndedAs is classifyEnded for an allocation of the version of g.
func (p *planner) classifyEndedAs(g *place.Group, a *structs.Allocation) rollout.Decision {
	s := rollout.Decision{Alloc: a, Index: a.Index(), Action: rollout.Hold}
	d := p.rollout.Deployment()
	switch {
	case a.NextAllocation != "", a.ClientStatus == structs.AllocLost, p.endedBeforeUpdate(a):
		s.Action = rollout.None
		return s
	// It is replaced at once, as one of a lost node is. Its policy is about tasks that fail by themselves.
	case a.EndedByLease():
		s.Action = rollout.None
		return s
	case d != nil && d.Status == structs.DeploymentFailed && a.DeploymentID == d.ID:
		return s // its version does not work
	case isDone(p, a):
		return s
	}

	now := p.outlook.Now.UnixNano()
	due, delay, ok := place.NextReschedule(place.ReschedulePolicyOf(p.outlook.Job, g.Spec.TaskGroup), a)
	due = clustertime.End(clustertime.Of(p.outlook), due-int64(delay), delay)
	// The node recorded an end in the future, so its clock is wrong, maybe by days. The delay begins now, and
	// is over with the evaluation that waited for it.
	if due-now > int64(delay) {
		due = now + int64(delay)
		if a.FollowupEvalID == p.outlook.Eval.ID {
			due = now
		}
	}
	switch {
	case !ok && !a.Migrate: // an operator may want it replaced beyond its policy
	case a.Migrate || due <= now:
		s.Action = rollout.Reschedule
		s.Delay = int64(delay)
	default:
		s.Due = due
	}

	return s
}

// endedBeforeUpdate reports whether an allocation had ended when a plan updated it in place: it ran in an
// older version only. The health of others that end in a deployment is known.
func (p *planner) endedBeforeUpdate(a *structs.Allocation) bool {
	d := p.rollout.Deployment()
	return d != nil && d.Active() && a.DeploymentID == d.ID && !a.DeploymentStatus.IsKnown()
}

// isDone reports whether an allocation of a job that ends has done its work.
func isDone(p *planner, a *structs.Allocation) bool {
	return p.outlook.Job.Finite() && a.ClientStatus == structs.AllocComplete
}
