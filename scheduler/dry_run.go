package scheduler

import (
	"time"

	"berth/state"
	"berth/structs"
)

// Preview is the plan of a job that is not registered yet.
type Preview struct {
	*structs.Plan
	Desired   map[string]*structs.DesiredUpdates // by group
	Preempted []*structs.AllocListStub           // the allocations that the plan displaces
}

// DryRun computes the effects of an evaluation for a user, as Process does but in one plan of any size: it
// never becomes a log entry.
func DryRun(tx *state.ReadTx, eval *structs.Evaluation, now time.Time) (*Preview, error) {
	p, err := newPlanner(tx, eval, now, options{enough: enough})
	if err != nil {
		return nil, err
	}
	p.placer.unbounded = true
	p.decide()
	desired := p.countDesired()
	p.execute()
	p.countHeld(desired)
	preempted := p.countPreemptions(desired)
	return &Preview{
		Plan:      p.outlook.Plan,
		Desired:   desired,
		Preempted: preempted,
	}, nil
}

// countHeld counts the allocations that the plan leaves alone for now, because of their group's pace: also
// those beyond the pace whose successors find no place.
// The dialect counts all batches of a per-node job.
func (p *planner) countHeld(desired map[string]*structs.DesiredUpdates) {
	if p.outlook.Job.PerNode() {
		return
	}

	for _, w := range p.placements {
		if w.held {
			u := desired[w.plan.spec.TaskGroup.Name]
			u.DestructiveUpdate--
			u.Ignore++
		}
	}

	for _, g := range p.placer.groups {
		if g.updates == nil || g.spec.Job != p.outlook.Job {
			continue
		}

		u := desired[g.spec.TaskGroup.Name]
		pace := uint64(g.updates.Size)
		if u.DestructiveUpdate > pace {
			u.Ignore += u.DestructiveUpdate - pace
			u.DestructiveUpdate = pace
		}
	}
}

// countPreemptions counts the displaced allocations for the groups that displace them, and returns them.
func (p *planner) countPreemptions(desired map[string]*structs.DesiredUpdates) []*structs.AllocListStub {
	var preempted []*structs.AllocListStub
	putStub := state.AllocStubs(p.outlook)
	for _, a := range p.outlook.Plan.Place {
		u := desired[a.TaskGroup]
		u.Preemptions += uint64(len(a.PreemptedAllocations))
		for _, id := range a.PreemptedAllocations {
			stub := new(structs.AllocListStub)
			putStub(state.Alloc(p.outlook, id), stub)
			preempted = append(preempted, stub)
		}
	}
	return preempted
}

// countDesired counts the decisions of the planner before it looks for nodes.
func (p *planner) countDesired() map[string]*structs.DesiredUpdates {
	c := desiredCounts{
		groups:  map[string]*structs.DesiredUpdates{},
		decided: map[string]bool{},
	}
	for _, g := range p.placer.groups {
		c.of(g.spec.TaskGroup.Name)
	}

	for _, w := range p.placements {
		c.addPlacement(p, w)
	}

	for _, u := range p.outlook.Plan.Update {
		a := state.Alloc(p.outlook, u.AllocID)
		if u.SetJobVersion && a != nil {
			c.of(a.TaskGroup).InPlaceUpdate++
			c.decided[a.ID] = true
		}
	}

	for _, s := range p.outlook.Plan.Stop {
		a := state.Alloc(p.outlook, s.AllocID)
		if a != nil && !c.decided[a.ID] {
			c.of(a.TaskGroup).Stop++
			c.decided[a.ID] = true
		}
	}

	for a := range p.outlook.JobAllocs() {
		if !a.Terminal() && !c.decided[a.ID] {
			c.of(a.TaskGroup).Ignore++
		}
	}

	return c.groups
}

// desiredCounts counts the decisions on allocations.
type desiredCounts struct {
	groups  map[string]*structs.DesiredUpdates
	decided map[string]bool // the allocations counted so far
}

func (c desiredCounts) of(group string) *structs.DesiredUpdates {
	u := c.groups[group]
	if u == nil {
		u = &structs.DesiredUpdates{}
		c.groups[group] = u
	}
	return u
}

func (c desiredCounts) addPlacement(p *planner, w *placement) {
	u := c.of(w.plan.spec.TaskGroup.Name)
	if w.prev != nil {
		c.decided[w.prev.ID] = true
	}

	switch {
	case w.canary && w.prev == nil:
		u.Canary++
	case w.isUpdate():
		u.DestructiveUpdate++
	case w.ended && !p.outlook.NodeOf(w.prev).Lost():
		u.Migrate++
	default:
		u.Place += uint64(w.size())
	}
}
