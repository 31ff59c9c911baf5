package state

import (
	"cmp"
	"slices"

	"berth/state/csi"
	"berth/state/namespace"
	"berth/structs"
	"berth/structs/storage"
)

// newPlacements returns the placements of a plan, without those whose allocations exist.
func newPlacements(tx Reader, p *structs.Plan) []*structs.Allocation {
	place := make([]*structs.Allocation, 0, len(p.Place))
	seen := make(map[string]bool, len(p.Place))
	for _, a := range p.Place {
		if !seen[a.ID] && Alloc(tx, a.ID) == nil {
			place = append(place, a)
		}
		seen[a.ID] = true
	}
	return place
}

// placePlanned puts the allocations that a plan of e places, and links them to their predecessors. It puts
// them in the order of their IDs, because keys that follow each other change the same nodes of a tree. The
// caller puts e afterwards, which updates the status of the job.
func (c *planApply) placePlanned(tx *WriteTx, place []*structs.Allocation, e *structs.Evaluation) error {
	placed := make([]*structs.Allocation, len(place))
	for i, a := range place {
		placed[i] = newAlloc(tx, a, c.jobOf(a).Group(a.TaskGroup))
		placed[i].EvalID = cmp.Or(a.EvalID, e.ID)
		placed[i].CreateTime = c.plan.Now
		placed[i].ModifyTime = c.plan.Now
	}

	countPlaced(tx, placed)
	slices.SortFunc(placed, func(a, b *structs.Allocation) int {
		return cmp.Compare(a.ID, b.ID)
	})

	// The allocations of a plan are alike, so each row shares the parts of the first one.
	like := &structs.Allocation{} // what the next row shares
	for i, a := range placed {
		n := c.used[a.NodeID].node
		like.ID = a.ID // it is new
		like.NodeID = n.ID
		like.NodeName = n.Name
		storeNewAlloc(tx, a, like)
		if i == 0 {
			*like = *a
		}
	}

	countEvalAllocs(tx, placed)
	namespace.CountPlaced(tx, placed)
	for _, a := range place {
		linkPrevious(tx, a)
		csi.TakeHostClaims(tx, a)
		err := csi.MakeJobVolumes(tx, c.jobOf(a), a, c.plan.Now)
		if err != nil {
			return err
		}
	}
	return nil
}

// newAlloc returns the row of a placement of a group.
func newAlloc(tx *WriteTx, placed *structs.Allocation, g *structs.TaskGroup) *structs.Allocation {
	a := placed.Copy()
	a.Resources = new(resourcesOf(a, g))
	a.Job = nil
	a.Services = nil // its node reports them
	a.CSIPlugins = g.Plugins()
	a.CSIVolumes = append(g.CSIUses(a.Index(), a.ID), storage.HostVolumeUses(g, placed.CSIVolumes)...)
	a.Namespace = structs.NamespaceOr(a.Namespace)
	a.DesiredStatus = cmp.Or(a.DesiredStatus, structs.AllocDesiredRun)
	a.ClientStatus = cmp.Or(a.ClientStatus, structs.AllocPending)
	if a.NodeName == "" {
		a.NodeName = Node(tx, a.NodeID).Name
	}
	a.AllocModifyIndex = tx.Index
	return a
}

// linkPrevious names a new allocation in the one that it replaces.
func linkPrevious(tx *WriteTx, a *structs.Allocation) {
	if a.PreviousAllocation == "" {
		return
	}
	prev := Alloc(tx, a.PreviousAllocation)
	if prev == nil || prev.NextAllocation == a.ID {
		return
	}
	linked := prev.Copy()
	linked.NextAllocation = a.ID
	putAlloc(tx, prev, linked)
}
