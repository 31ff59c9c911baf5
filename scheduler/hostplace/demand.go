package hostplace

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/storage"
)

// Demand has the requests of one allocation that dynamic host volumes may serve, looked up. The zero value
// has none.
type Demand struct {
	of       Of
	requests []*request
}

// request is a request for a host volume.
type request struct {
	*structs.VolumeRequest
	alias string
	name  string // of the volume

	tx      state.Reader
	volumes volumes
	claims  claims // the allocation gets one of them; none: it gets a new one
	kept    claims // for the successors of others
}

type claims []*storage.TaskGroupHostVolumeClaim

// Dynamic reports whether it has requests.
func (d *Demand) Dynamic() bool { return len(d.requests) > 0 }

// Nodes returns the IDs of the only nodes whose host volumes can serve the demand, sorted, with a name of
// this list. The name is "" if that does not bound the nodes.
func (d *Demand) Nodes() (name string, ids []string) {
	for _, r := range d.requests {
		if !storage.TakesStaticHostVolume(r.VolumeRequest) {
			name = fmt.Sprintf("host volume %s of index %d after %s", r.name, d.of.Index, d.of.Prev)
			return name, r.nodes()
		}
	}
	return "", nil
}

// Keys yields the unblock keys of the host volumes of the requests of a group, for the allocation with an
// index.
func Keys(ns string, requests []*structs.VolumeRequest, index int) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, r := range requests {
			if !yield(structs.WakeHostVolume(ns, storage.HostVolumeName(r, index))) {
				return
			}
		}
	}
}

// Found is a dynamic host volume of a node for one request, with the claim that the allocation is to make.
type Found struct {
	Volume *structs.CSIVolume
	Claim  *structs.CSIClaim
	Keys   []string // unblock keys of changes of the volumes of its name, and of its plugin
	*request
}

// Text adds the volume to the reason for which the allocation cannot claim it.
func (f *Found) Text(why string) string {
	return fmt.Sprintf("host volume %q (%s): %s", f.name, f.Volume.ID, why)
}

// Here is a demand on one node.
type Here struct {
	Found []*Found
	group *structs.TaskGroup // of the allocation, in the form of storage.GroupWithHostVolumes
	Lacks string             // why the node cannot serve the demand, "" if it can
	Keys  []string           // unblock keys of that reason
}

// Of returns a group in the form of storage.GroupWithHostVolumes: the group itself without a demand. The
// receiver may be nil.
func (h *Here) Of(g *structs.TaskGroup) *structs.TaskGroup {
	if h == nil {
		return g
	}
	return h.group
}

// On returns the demand on a node.
func (d *Demand) On(n *structs.Node) *Here {
	h := &Here{}
	var uses []structs.CSIVolumeUse
	for _, r := range d.requests {
		v, why := r.on(n)
		if slices.ContainsFunc(h.Found, func(f *Found) bool { return f.Volume == v }) {
			why = fmt.Sprintf("two volume blocks name host volume %q; mount one in several places instead", r.name)
		}
		key := structs.WakeHostVolume(d.of.Namespace, r.name)
		if why != "" {
			h.Lacks = why
			h.Keys = []string{key}
			return h
		}
		if v == nil {
			continue
		}

		f := &Found{Volume: v, request: r, Keys: []string{key, structs.WakePlugin(v.PluginID)}}
		f.Claim = storage.HostRequestOf(r.VolumeRequest, v.ID).Claim(d.of.Namespace, 0, "")
		f.Claim.JobID = d.of.JobID
		f.Claim.TaskGroup = d.of.Group.Name
		h.Found = append(h.Found, f)
		uses = append(uses, storage.HostVolumeUse(r.alias, r.VolumeRequest, v.ID, ""))
	}
	h.group = storage.GroupWithHostVolumes(d.of.Group, uses)
	return h
}

// on returns the dynamic host volume of a node for a request. It returns nil without a reason if a host
// volume of the configuration of the node serves the request: Plan.Lacks has checked that one.
func (r *request) on(n *structs.Node) (v *structs.CSIVolume, why string) {
	static := n.HostVolumes[r.name]
	v = r.volumes[n.ID]
	switch {
	case static != nil && storage.TakesStaticHostVolume(r.VolumeRequest):
		return nil, ""
	case v == nil && static != nil:
		return nil, fmt.Sprintf("host volume %q is one of the configuration of the node: per_alloc, sticky and "+
			"block-device need a dynamic one", r.name)
	case len(r.claims) > 0 && claimOn(r.claims, v) == nil:
		return nil, r.elsewhere()
	case v == nil:
		return nil, fmt.Sprintf("the node has no host volume %q", r.name)
	case len(r.claims) == 0 && claimOn(r.kept, v) != nil:
		return nil, fmt.Sprintf("host volume %q is kept for the successor of allocation %s", r.name,
			structs.ShortID(claimOn(r.kept, v).AllocID))
	case r.Sticky && len(r.claims) == 0 && csi.HostClaimsFull(r.tx, v.Namespace, v.ID):
		return nil, fmt.Sprintf("host volume %q: %s", r.name, csi.HostClaimsFullText)
	}
	return v, ""
}

// claimOn returns the first of some claims that is on a volume, nil for none.
func claimOn(all claims, v *structs.CSIVolume) *storage.TaskGroupHostVolumeClaim {
	for _, c := range all {
		if v != nil && c.VolumeID == v.ID {
			return c
		}
	}
	return nil
}

// mostNamed is the most nodes that a reason names.
const mostNamed = 3

// elsewhere is the reason of a node that has none of the volumes of the claims.
func (r *request) elsewhere() string {
	var names []string
	for _, id := range r.nodes() {
		names = append(names, csi.NodeName(r.tx, id))
	}
	if len(names) > mostNamed {
		names = append(names[:mostNamed], "…")
	}
	return fmt.Sprintf("host volume %q is sticky: the volume of its claim is on node %s", r.name,
		strings.Join(names, " or "))
}

// nodes returns the IDs of the nodes whose dynamic host volumes the allocation may have, sorted.
func (r *request) nodes() (ids []string) {
	for _, id := range slices.Sorted(maps.Keys(r.volumes)) {
		if len(r.claims) == 0 || claimOn(r.claims, r.volumes[id]) != nil {
			ids = append(ids, id)
		}
	}
	return ids
}

// Nowhere returns the reason for which no node can serve a sticky request now: those of its claims are not
// ready. It returns "" if one may. keys are those of changes that may end this.
func (d *Demand) Nowhere() (why string, keys []string) {
	for _, r := range d.requests {
		status := r.unready()
		if len(r.claims) > 0 && status != "" {
			return r.elsewhere() + ", which is " + status,
				[]string{structs.WakeHostVolume(d.of.Namespace, r.name)}
		}
	}
	return "", nil
}

// unready returns the status of the nodes of the claims, "" if one is ready.
func (r *request) unready() string {
	status := "gone"
	for _, id := range r.nodes() {
		n := state.Node(r.tx, id)
		switch {
		case n == nil:
		case n.Ready():
			return ""
		case n.Status != structs.NodeReady:
			status = n.Status
		default:
			status = "not eligible"
		}
	}
	return status
}
