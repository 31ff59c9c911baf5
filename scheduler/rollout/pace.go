package rollout

import (
	"math"
	"time"

	"berth/structs"
)

// Place is the place of an allocation in its group: its index, or in a per-node job its node.
type Place struct {
	Node  string
	Index int
}

// PlaceOf returns the place of an allocation of a job.
func PlaceOf(j *structs.Job, a *structs.Allocation) Place {
	if j.PerNode() {
		return Place{Node: a.NodeID}
	}
	return Place{Index: a.Index()}
}

// MostRejected is the most updates of a group without a place for whose sake a plan tries to stop others.
const MostRejected = 16

// Pace is the number of allocations of a group that a plan may still replace by the new version. Without a
// pace, nil, it may replace all at once.
type Pace struct {
	Size int   // allocations that an update replaces at a time
	Next int64 // of a per-node job: when more may be replaced, UnixNano, 0 for now

	strategy *structs.UpdateStrategy
	perNode  bool
	left     int            // allocations that may still be replaced
	empty    map[Place]bool // places whose allocations earlier plans have stopped for the update
	absent   int            // allocations that the group misses for other reasons, such as a drain
	rejected int            // that found no place for their successor
}

// NewPace returns the pace of a group that may replace none. An allocation that has a volume for itself is
// replaced alone.
func NewPace(j *structs.Job, g *structs.TaskGroup, empty map[Place]bool) *Pace {
	size := g.Update.MaxParallel
	if g.HoldsVolumesAlone() {
		size = 1
	}
	return &Pace{
		strategy: g.Update,
		perNode:  j.PerNode(),
		Size:     size,
		empty:    empty,
	}
}

// MayUpdate reports whether another allocation of the group may be replaced by the new version now.
func (p *Pace) MayUpdate() bool {
	return p == nil || p.left > 0
}

// counts reports whether the plan may update the group, at the pace of a deployment.
func (p *Pace) counts() bool {
	return p != nil && p.left > 0 && !p.perNode
}

// PrecedesUpdates reports whether the other placements of the group come before its updates, because these
// wait for their health, or for a successor at an empty place.
func (p *Pace) PrecedesUpdates() bool {
	return p.counts() || p != nil && len(p.empty) > 0
}

// MostStops returns the most predecessors that the group may miss besides an update's own, for which they
// stop: none while it has an empty place, or misses as many because of a drain. Without a pace it is any
// number.
func (p *Pace) MostStops() int {
	switch {
	case p == nil:
		return math.MaxInt
	case len(p.empty) > 0:
		return 0
	}
	return max(0, p.left-p.absent-1)
}

// NoteEmptied counts an allocation that stops before its successor has a place.
func (p *Pace) NoteEmptied(at Place) {
	if p != nil {
		p.left--
		p.empty[at] = true
	}
}

// NoteUpdated counts an allocation whose successor has found a place at a time, UnixNano. One that stopped
// before is counted already.
func (p *Pace) NoteUpdated(at Place, stoppedBefore bool, now int64) {
	if p == nil {
		return
	}
	if !stoppedBefore {
		p.left--
	}
	delete(p.empty, at)
	p.noteReplaced(now)
}

// NoteAdded counts an allocation of the deployment that replaces no running one. Its health is not known, so
// it counts like an update: see SetPace. One at an empty place has counted before, and so has one that
// replaces an allocation of the same deployment. In a per-node job only those at empty places count.
func (p *Pace) NoteAdded(at Place, countedBefore bool) {
	if p == nil {
		return
	}
	empty := p.empty[at]
	delete(p.empty, at)
	if p.counts() && !empty && !countedBefore {
		p.left--
	}
}

// NoteRejected counts an allocation whose successor has found no place. A plan leaves the others alone after
// some.
func (p *Pace) NoteRejected() {
	if p == nil || p.perNode {
		return // each node of a per-node job is a question of its own
	}
	p.rejected++
	if p.rejected >= MostRejected {
		p.left = 0
	}
}

// BeginBatch lets the plan replace a batch of the allocations of a per-node job: the size of the pace less
// its empty places, and less the allocations that were replaced at some times, UnixNano, in the last stagger.
// While places are empty, the next batch follows after a retry.
func (p *Pace) BeginBatch(replaced []int64, now time.Time, retry time.Duration) {
	for _, at := range replaced {
		p.noteReplaced(at)
	}
	p.left = max(0, p.strategy.MaxParallel-len(p.empty)-len(replaced))
	if p.Next == 0 && len(p.empty) > 0 {
		p.Next = now.Add(max(p.strategy.Stagger, retry)).UnixNano()
	}
}

// noteReplaced counts an allocation that was replaced at a time, UnixNano, in the last stagger.
func (p *Pace) noteReplaced(at int64) {
	due := at + int64(p.strategy.Stagger)
	if p.Next == 0 || due < p.Next {
		p.Next = due
	}
}
