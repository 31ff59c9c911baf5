package scheduler

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"berth/internal/codec"
	"berth/structs"
)

// groupShape is all of a group that decides whether an allocation of it finds a place.
type groupShape struct {
	Namespace, NodePool string
	Datacenters         []string
	Drivers             []string
	Constraints         [][]*structs.Constraint
	Ask                 structs.Resources
	Volumes             map[string]*structs.VolumeRequest
}

// shape says in short what the evaluation found no place for. Where one evaluation finds none, no other of the same
// shape does in the same state: so of those that wait for room one stands for all. It is "" where that depends
// on more than what the groups ask for: on what there is of the job already, or where it is.
func (p *planner) shape() string {
	if p.job == nil || p.job.PerNode() {
		return ""
	}
	var asks []groupShape
	for _, g := range p.groups {
		switch {
		case g.failed == nil:
			continue
		case g.distinct != "" || g.perAlloc() || p.updates(g):
			return ""
		}
		s := groupShape{Namespace: p.ns, NodePool: poolOr(p.job.NodePool), Datacenters: p.job.Datacenters, Drivers: g.drivers,
			Constraints: [][]*structs.Constraint{p.job.Constraints, g.group.Constraints}, Ask: g.ask, Volumes: g.group.Volumes}
		for _, t := range g.group.Tasks {
			s.Constraints = append(s.Constraints, t.Constraints)
		}
		asks = append(asks, s)
	}
	b, err := codec.Encode(asks)
	if err != nil {
		return "" // it is tried by itself
	}
	return fmt.Sprintf("%x", sha256.Sum256(b))[:32]
}

// updates reports whether an allocation of the group is to make way for its successor: that finds room where no
// other does.
func (p *planner) updates(g *groupPlan) bool {
	return slices.ContainsFunc(p.wants, func(w *want) bool { return w.plan == g && w.update })
}
