package scheduler

import (
	"slices"

	"berth/structs"
)

// An update stops an allocation once its successor has a place. If the successor needs a volume that another
// allocation of the job has, which waits for its own successor, both would wait for ever. It happens if the
// new version uses a shared volume in another mode, or if two groups exchange their volumes. Such allocations
// are replaced together: all are stopped, and then all successors are placed.

// volumeUsers are the updates whose predecessors use a volume, by the class of the use.
type volumeUsers map[string]map[structs.ClaimClass][]*placement

// updatesTogether returns the updates of which one needs a volume of the predecessor of another.
func (p *planner) updatesTogether() []*placement {
	users := volumeUsers{}
	for _, w := range p.placements {
		if w.update {
			users.add(w)
		}
	}
	if len(users) == 0 {
		return nil
	}
	joined := map[*placement]bool{}
	for _, w := range p.placements {
		if !w.update {
			continue
		}
		for _, u := range w.plan.group.CSIUses(w.index) {
			users.join(w, &u, joined)
		}
	}
	var together []*placement
	for _, w := range p.placements {
		if joined[w] {
			together = append(together, w)
		}
	}
	return together
}

func (users volumeUsers) add(w *placement) {
	for i := range w.prev.CSIVolumes {
		u := &w.prev.CSIVolumes[i]
		if users[u.VolumeID] == nil {
			users[u.VolumeID] = map[structs.ClaimClass][]*placement{}
		}
		class := u.Class()
		users[u.VolumeID][class] = append(users[u.VolumeID][class], w)
	}
}

// join marks an update that makes a use, and the other updates whose predecessors exclude that use.
func (users volumeUsers) join(w *placement, u *structs.CSIVolumeUse, joined map[*placement]bool) {
	for class, others := range users[u.VolumeID] {
		if !class.Conflicts(u.Class()) {
			continue
		}
		for _, other := range others {
			if other != w {
				joined[w] = true
				joined[other] = true
			}
		}
	}
}

// placeTogether places the successors of allocations that have to stop together. If none finds a place, all
// allocations keep running.
func (p *planner) placeTogether(together []*placement) {
	if p.anyHeldBack(together) {
		for _, w := range together {
			w.held = true
		}
		return
	}
	for _, w := range together {
		p.stopAlloc(w.prev, structs.StopReplaced, replacedReason)
	}
	before := len(p.plan.Place)
	for _, w := range together {
		if p.full() {
			p.more = true
			return
		}
		p.placeOne(w)
	}
	if len(p.plan.Place) > before {
		return
	}
	for _, w := range slices.Backward(together) {
		p.unstopAlloc(w.prev)
	}
}

// anyHeldBack reports whether a group of the updates may replace nothing now, because its last successors are
// not healthy yet.
func (p *planner) anyHeldBack(together []*placement) bool {
	return slices.ContainsFunc(together, func(w *placement) bool { return !p.mayReplace(w.plan) })
}
