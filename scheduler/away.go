package scheduler

import (
	"cmp"
	"slices"

	"berth/scheduler/disconnect"
	"berth/scheduler/feasible"
	"berth/scheduler/place"
	"berth/scheduler/rollout"
	"berth/state"
	"berth/state/clustertime"
	"berth/state/schema"
	"berth/structs"
)

// This file applies the rules of package disconnect: it reads the state of nodes and allocations for
// them, and adds what follows to the plan.

// classifyAway decides on an allocation whose node is away, or has not reported it since, and whose place no
// other allocation has.
func classifyAway(p *planner, g *place.Group, a *structs.Allocation) rollout.Decision {
	d := decideAway(p.outlook, g, a, false)
	s := rollout.Decision{Alloc: a, Index: a.Index(), Due: d.Until}
	switch {
	case d.Action == disconnect.Lose:
		s.Action = rollout.Lose
		s.Why = schema.NodeIsDown
	case d.Action == disconnect.Replace && !p.outlook.Job.PerNode(): // its place is on its node
		s.Action = rollout.Replace
	default:
		s.Action = rollout.Await
	}
	return s
}

// decideAway decides on an allocation of a group. A canary is lost with its node: its deployment needs
// another one.
func decideAway(
	o *feasible.Outlook, g *place.Group, a *structs.Allocation, covered bool,
) disconnect.Decision {
	rule := g.Spec.TaskGroup.Disconnect
	if a.DeploymentStatus.IsCanary() {
		rule = nil
	}
	return disconnect.Next(disconnect.Alloc{
		Node:    lossOf(o, o.NodeOf(a)),
		Status:  a.ClientStatus,
		Given:   a.Migrate,
		Covered: covered,
	}, rule, o.Now.UnixNano())
}

// lossOf returns what decisions depend on of a node. One that is deleted does not come back.
func lossOf(o *feasible.Outlook, n *structs.Node) disconnect.Node {
	switch {
	case n == nil:
		return disconnect.Node{Lost: true, Off: true}
	case !n.Lost():
		return disconnect.Node{}
	}
	return disconnect.Node{
		Lost:  true,
		Since: disconnect.SinceOf(n),
		Clock: clustertime.Of(o),
		Off:   state.IsProvedOff(o, n),
	}
}

// holdUnknown marks an allocation as unknown, and as lost at a time in UnixNano, 0 for never.
func holdUnknown(p *planner, a *structs.Allocation, until int64) {
	if !a.IsUnknown() {
		p.outlook.Plan.Update = append(p.outlook.Plan.Update, &structs.PlanUpdate{
			AllocID: a.ID,
			Unknown: true,
		})
	}
	if until > 0 {
		p.delayed = append(p.delayed, rollout.Decision{Alloc: a, Due: until})
	}
}

// settleAway decides on the allocations of a group that share a place with another one: they were replaced
// while their node was away. It returns the others, of which each has a place of its own.
func settleAway(p *planner, g *place.Group, allocs []*structs.Allocation) []*structs.Allocation {
	rule := g.Spec.TaskGroup.Disconnect

	// Most groups end here. Without a rule an allocation may be unknown from a version of the job that had
	// one.
	if rule == nil && !slices.ContainsFunc(allocs, (*structs.Allocation).IsUnknown) {
		return allocs
	}

	present, stopped := settlePresent(p, rule, allocs)
	rest := make([]*structs.Allocation, 0, len(allocs))
	for _, a := range allocs {
		has := present[a.Index()]
		switch {
		case stopped[a.ID]:
		case isTakenBack(p, rule, a, has):
			p.outlook.StopAlloc(a, "", originalIsBack)
		// Also if its replacement has ended since: what follows then begins at the replacement.
		case isAway(p, a) && (has != nil || a.NextAllocation != ""):
			setAside(p, g, a)
		default:
			if a == has {
				keepOriginal(p, rule, a)
			}

			rest = append(rest, a)
		}
	}

	return rest
}

// isAway reports whether an allocation has not ended as far as the servers know, and they do not know more.
// The node of an unknown one may be back already, and not have reported it yet.
func isAway(p *planner, a *structs.Allocation) bool {
	return !a.ClientTerminal() && (a.IsUnknown() || p.outlook.NodeOf(a).Lost())
}

// settlePresent leaves at most one allocation of those that are there at each place. It returns these by
// their indexes, and the IDs of stopped ones.
func settlePresent(
	p *planner, rule *structs.DisconnectStrategy, allocs []*structs.Allocation,
) (present map[int]*structs.Allocation, stopped map[string]bool) {
	present = map[int]*structs.Allocation{}
	stopped = map[string]bool{}

	// The order of their placement makes the original the first of a pair.
	for _, a := range inOrder(allocs) {
		if a.ClientTerminal() || isAway(p, a) {
			continue
		}

		loser := settlePair(p, rule, present[a.Index()], a)
		if loser != nil {
			stopped[loser.ID] = true
		}

		if loser != a {
			present[a.Index()] = a
		}
	}

	// A replacement that has done the work of its place ends the original: a batch job must not do its work
	// twice.
	for _, a := range allocs {
		has := present[a.Index()]
		if isTakenBack(p, rule, a, has) && isDone(p, a) {
			p.outlook.StopAlloc(has, "", "its node is back, and its replacement has done the work")
			stopped[has.ID] = true
			delete(present, a.Index())
		}
	}

	return present, stopped
}

// inOrder returns allocations in the order of their placement.
func inOrder(allocs []*structs.Allocation) []*structs.Allocation {
	return slices.SortedFunc(slices.Values(allocs), func(a, b *structs.Allocation) int {
		return cmp.Or(cmp.Compare(a.CreateIndex, b.CreateIndex), cmp.Compare(a.ID, b.ID))
	})
}

// settlePair stops one of two allocations with one place if the first was replaced while its node was away,
// and returns the one that it stops; nil for none.
func settlePair(
	p *planner, rule *structs.DisconnectStrategy, first, second *structs.Allocation,
) *structs.Allocation {
	// Which of two versions stays is the decision of the update (trimToCount).
	if first == nil || rule == nil || first.NextAllocation == "" || first.JobVersion != second.JobVersion {
		return nil
	}
	if disconnect.KeepsOriginal(rule, rivalOf(first), rivalOf(second)) {
		p.outlook.StopAlloc(second, "", originalIsBack)
		return second
	}
	p.outlook.StopAlloc(first, "", "its node is back, and its replacement stays")
	return first
}

const originalIsBack = "the node of the allocation that it replaced is back"

// isTakenBack reports whether an allocation has ended as the replacement of one that is there and has its
// place alone. It would be replaced itself, or has done the work.
func isTakenBack(p *planner, rule *structs.DisconnectStrategy, a, has *structs.Allocation) bool {
	return has != nil && wasReplaced(p, rule, has) && a.ClientTerminal() && !a.ServerTerminal() &&
		a.NextAllocation == "" && a.JobVersion == has.JobVersion && a.CreateIndex > has.CreateIndex
}

// wasReplaced reports whether an allocation that has its place alone was replaced while its node was away.
func wasReplaced(p *planner, rule *structs.DisconnectStrategy, a *structs.Allocation) bool {
	return rule != nil && a.NextAllocation != "" && !p.outlook.IsOlder(a)
}

// rivalOf returns what the choice between an allocation and another one depends on.
func rivalOf(a *structs.Allocation) disconnect.Rival {
	r := disconnect.Rival{Running: a.ClientStatus == structs.AllocRunning}
	for _, s := range a.TaskStates {
		if s != nil && s.State == structs.TaskRunning {
			// A task that has started again has lost the work before that.
			r.Since = max(r.Since, s.StartedAt.UnixNano())
		}
	}
	if a.Metrics == nil {
		return r
	}
	for _, m := range a.Metrics.ScoreMetaData {
		if m.NodeID == a.NodeID {
			r.Score = m.NormScore
		}
	}
	return r
}

// keepOriginal takes back that an allocation was replaced, because it is there and has its place alone.
func keepOriginal(p *planner, rule *structs.DisconnectStrategy, a *structs.Allocation) {
	if wasReplaced(p, rule, a) {
		p.outlook.Plan.Update = append(p.outlook.Plan.Update, &structs.PlanUpdate{
			AllocID:      a.ID,
			KeepOriginal: true,
		})
	}
}

// setAside decides on an allocation whose node is away and whose place another one has.
func setAside(p *planner, g *place.Group, a *structs.Allocation) {
	d := decideAway(p.outlook, g, a, true)
	if d.Action == disconnect.Lose {
		p.endAlloc(a, schema.NodeIsDown)
		return
	}
	holdUnknown(p, a, d.Until)
}
