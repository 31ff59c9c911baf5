package place

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"berth/internal/codec"
	"berth/scheduler/feasible"
	"berth/structs/storage"
)

// Shape returns a digest of the groups without a place. Evaluations of equal shape fit or fail together in
// one state, so one of them represents all blocked ones. It is "" if that depends on more than the groups'
// demands: on the job's existing allocations or their nodes.
func (p *Placer) Shape() string {
	job := p.outlook.Job
	if job == nil || job.PerNode() {
		return ""
	}

	var asks []feasible.Shape
	for _, g := range p.Groups {
		switch {
		case g.Failed == nil:
			continue
		// Each of these makes the answer depend on the allocations that the job has.
		case g.Spec.Limited(), storage.HostVolumesDiffer(g.Spec.TaskGroup), p.updates(g):
			return ""
		}

		asks = append(asks, g.Spec.Shape(p.outlook.Namespace, job.Type))
	}

	// The encoding sorts the keys of maps, so equal demands have equal bytes.
	b, err := codec.Encode(asks)
	if err != nil {
		return "" // such an evaluation is like no other
	}

	digest := sha256.Sum256(b)
	return hex.EncodeToString(digest[:16])
}

// updates reports whether placements update the group: an allocation of it stops for its successor, which
// finds capacity where another does not.
func (p *Placer) updates(g *Group) bool {
	return slices.ContainsFunc(p.placements, func(w *Placement) bool {
		return w.Group == g && w.IsUpdate()
	})
}
