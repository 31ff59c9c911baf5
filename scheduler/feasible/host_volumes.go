package feasible

import (
	"fmt"
	"slices"

	"berth/scheduler/rejects"
	"berth/state"
	"berth/structs"
	"berth/structs/storage"
)

// hasHostVolumes is a group filter: the node offers each host volume of the group, for writing if the group
// writes it.
func hasHostVolumes(g *Group, n *structs.Node) string {
	return g.outlook.Hosts.Lacks(g.outlook, g.outlook.Namespace, g.hostVolumes, n)
}

// onNode returns a demand as it is on a node, with the uses of its dynamic host volumes there, or the
// rejection of the node because of them.
func onNode(p *Outlook, d *Demand, v *NodeView) (*Demand, *rejects.Rejection) {
	if !d.Hosts.Dynamic() {
		return d, nil
	}

	own := *d
	own.here = d.Hosts.On(v.Node)
	if own.here.Lacks != "" {
		return nil, &rejects.Rejection{
			Filter: rejects.FilterHostVolume,
			Reason: own.here.Lacks,
			Keys:   own.here.Keys,
		}
	}
	own.Uses = slices.Clip(d.Uses)
	for _, f := range own.here.Found {
		u := VolumeUse{claim: f.Claim, Volume: f.Volume, keys: f.Keys}
		u.bound = binds(p, &u)
		if why := p.unclaimableReason(u); why != "" {
			return nil, &rejects.Rejection{Filter: rejects.FilterHostVolume, Reason: f.Text(why), Keys: f.Keys}
		}
		own.Uses = append(own.Uses, u)
	}
	return &own, nil
}

// hostVolumesFree checks that no other allocation on the node excludes the group from one of its host
// volumes.
func hostVolumesFree(p *Outlook, d *Demand, v *NodeView) *rejects.Rejection {
	if len(d.Group.hostVolumes) == 0 {
		return nil
	}
	g := d.here.Of(d.Group.TaskGroup)
	name, holder := state.HostVolumeHolder(p, v.Node.ID, g, p.stopped)
	if name != "" {
		return &rejects.Rejection{Reason: fmt.Sprintf("host volume %q has a writer, allocation %s", name,
			structs.ShortID(holder))}
	}

	// These are not in the state yet, where HostVolumeHolder looks.
	for _, other := range v.writers {
		name = storage.HostVolumeConflict(g, other)
		if name != "" {
			return &rejects.Rejection{Reason: fmt.Sprintf("host volume %q has a writer of this job", name)}
		}
	}
	return nil
}
