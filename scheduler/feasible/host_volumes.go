package feasible

import (
	"fmt"

	"berth/scheduler/rejects"
	"berth/state"
	"berth/structs"
)

// hasHostVolumes is a group filter: the node offers each host volume of the group, for writing if the group
// writes it.
func hasHostVolumes(g *Group, n *structs.Node) string {
	for _, r := range g.hostVolumes {
		v := n.HostVolumes[r.Source]
		switch {
		case v == nil:
			return fmt.Sprintf("the node has no host volume %q", r.Source)
		case v.ReadOnly && !r.ReadOnly:
			return fmt.Sprintf("host volume %q is read-only on the node", r.Source)
		}
	}
	return ""
}

// hostVolumesFree checks that no other allocation on the node excludes the group from one of its host
// volumes.
func hostVolumesFree(p *Outlook, d *Demand, v *NodeView) *rejects.Rejection {
	if len(d.Group.hostVolumes) == 0 {
		return nil
	}
	g := d.Group.TaskGroup
	name, holder := state.HostVolumeHolder(p, v.Node.ID, g, p.stopped)
	if name != "" {
		return &rejects.Rejection{Reason: fmt.Sprintf("host volume %q has a writer, allocation %s", name,
			structs.ShortID(holder))}
	}

	// These are not in the state yet, where HostVolumeHolder looks.
	for _, other := range v.writers {
		name = g.HostVolumeConflict(other)
		if name != "" {
			return &rejects.Rejection{Reason: fmt.Sprintf("host volume %q has a writer of this job", name)}
		}
	}
	return nil
}
