package scheduler

import (
	"time"

	"berth/scheduler/place"
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
	p, err := newPlanner(tx, eval, now, options{enough: place.Enough})
	if err != nil {
		return nil, err
	}
	p.placer.Unbounded = true
	p.decide()

	// The decisions are counted before execute, which changes the plan: an update without a place is still
	// one.
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
		if w.Held {
			u := desired[w.Group.Spec.TaskGroup.Name]
			u.DestructiveUpdate--
			u.Ignore++
		}
	}

	for _, g := range p.placer.Groups {
		if g.Pace == nil || g.Spec.Job != p.outlook.Job {
			continue
		}

		u := desired[g.Spec.TaskGroup.Name]
		pace := uint64(g.Pace.Size)
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

	for _, g := range p.placer.Groups {
		c.of(g.Spec.TaskGroup.Name)
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

func (c desiredCounts) addPlacement(p *planner, w *place.Placement) {
	u := c.of(w.Group.Spec.TaskGroup.Name)
	if w.Prev != nil {
		c.decided[w.Prev.ID] = true
	}

	switch {
	case w.Canary && w.Prev == nil:
		u.Canary++
	case w.IsUpdate():
		u.DestructiveUpdate++
	case w.Ended && !p.outlook.NodeOf(w.Prev).Lost():
		u.Migrate++
	default:
		u.Place += uint64(w.Size())
	}
}
