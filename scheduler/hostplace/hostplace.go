// Package hostplace finds the dynamic host volumes that the allocations of a plan can have on a node (see
// package structs/storage), and the claims of those with sticky. Whether an allocation can claim a volume
// that it finds is decided as for each CSI volume, by package feasible.
package hostplace

import (
	"fmt"
	"maps"
	"slices"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/storage"
)

// Plan has what a plan has read and decided so far. The zero value is an empty plan. All
// calls name one namespace.
type Plan struct {
	volumes  map[string]volumes // by name
	heirs    map[string]bool    // allocations that have, or will have, a successor
	assigned map[string]bool    // claims of placements
}

// volumes are the volumes of one name by node.
type volumes map[string]*structs.CSIVolume

// named returns the dynamic host volumes of a namespace with a name.
func (p *Plan) named(tx state.Reader, ns, name string) volumes {
	found, known := p.volumes[name]
	if known {
		return found
	}

	found = volumes{}
	for v := range csi.HostVolumesNamed(tx, ns, name) {
		found[v.Host.NodeID] = v
	}
	if p.volumes == nil {
		p.volumes = map[string]volumes{}
	}
	p.volumes[name] = found
	return found
}

// Lacks returns the reason for which a node has no host volume for one of the requests of a group, "" if it
// has all. Those that only dynamic host volumes can serve are for Demand.On.
func (p *Plan) Lacks(tx state.Reader, ns string, requests []*structs.VolumeRequest, n *structs.Node) string {
	for _, r := range requests {
		v := n.HostVolumes[r.Source]
		switch {
		case !storage.TakesStaticHostVolume(r):
		case v == nil && p.named(tx, ns, r.Source)[n.ID] == nil:
			return fmt.Sprintf("the node has no host volume %q", r.Source)
		case v != nil && v.ReadOnly && !r.ReadOnly:
			return fmt.Sprintf("host volume %q is read-only on the node", r.Source)
		}
	}
	return ""
}

// Reserve keeps the claims of allocations for their successors, which this plan or a later one places.
func (p *Plan) Reserve(allocs ...*structs.Allocation) {
	if p.heirs == nil {
		p.heirs = map[string]bool{}
	}
	for _, a := range allocs {
		p.heirs[a.ID] = true
	}
}

// Of is the allocation for which LookUp finds volumes.
type Of struct {
	Namespace, JobID string
	Group            *structs.TaskGroup
	Index            int
	Prev             string          // the allocation that it replaces, "" for none
	Stopped          map[string]bool // allocations that the plan stops
}

// LookUp returns the demand of an allocation.
func (p *Plan) LookUp(tx state.Reader, o Of) Demand {
	d := Demand{of: o}
	if len(o.Group.Volumes) == 0 {
		return d // each placement asks, and a sorted list of nothing is an allocation
	}

	for _, alias := range slices.Sorted(maps.Keys(o.Group.Volumes)) {
		r := o.Group.Volumes[alias]
		if r == nil || r.Type != structs.VolumeTypeHost {
			continue
		}
		name := storage.HostVolumeName(r, o.Index)
		found := p.named(tx, o.Namespace, name)
		if len(found) == 0 && storage.TakesStaticHostVolume(r) {
			continue
		}
		q := &request{VolumeRequest: r, alias: alias, name: name, tx: tx, volumes: found}
		if r.Sticky {
			p.findClaims(q, o)
		}
		d.requests = append(d.requests, q)
	}
	return d
}

// findClaims finds the claims of which an allocation gets one: the claim of the allocation that it replaces,
// or claims that no allocation has. Without one it makes a claim. A volume for one allocation is not chosen
// for that if it is kept for a successor of another one.
func (p *Plan) findClaims(r *request, o Of) {
	of := csi.HostClaimUse{Namespace: o.Namespace, JobID: o.JobID, Group: o.Group.Name, VolumeName: r.name}
	alone := storage.HostRequestOf(r.VolumeRequest, "").Exclusive()
	for c := range csi.HostClaimsOfGroup(r.tx, of) {
		switch {
		case p.assigned[c.ID], csi.HostClaimHolder(r.tx, c, o.Stopped) != nil:
		case o.Prev != "" && c.AllocID == o.Prev:
			r.claims = claims{c}
			return
		case p.heirs[c.AllocID] && alone:
			r.kept = append(r.kept, c)
		case !p.heirs[c.AllocID]:
			r.claims = append(r.claims, c)
		}
	}
}

// Uses returns the uses of the volumes that an allocation has found on its node. Those of sticky requests
// have claims that no other placement of the plan gets from here on.
func (p *Plan) Uses(h *Here) (uses []structs.CSIVolumeUse) {
	for _, f := range h.Found {
		r := f.request
		claim := ""
		if r.Sticky {
			claim = structs.NewID()
			if c := claimOn(r.claims, f.Volume); c != nil {
				claim = c.ID
			}
			if p.assigned == nil {
				p.assigned = map[string]bool{}
			}
			p.assigned[claim] = true
		}
		uses = append(uses, storage.HostVolumeUse(r.alias, r.VolumeRequest, f.Volume.ID, claim))
	}
	return uses
}
