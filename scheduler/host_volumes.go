package scheduler

import (
	"fmt"

	"berth/scheduler/rejects"
	"berth/state"
	"berth/structs"
)

// hasHostVolumes is a group filter: the node offers each host volume of the group, for writing if the group
// writes it.
func hasHostVolumes(g *compiledGroup, n *structs.Node) string {
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
func hostVolumesFree(p *outlook, d *Demand, v *nodeView) *rejects.Rejection {
	if len(d.group.hostVolumes) == 0 {
		return nil
	}
	g := d.group.group
	name, holder := state.HostVolumeHolder(p, v.node.ID, g, p.stopped)
	if name != "" {
		return &rejects.Rejection{Reason: fmt.Sprintf("host volume %q has a writer, allocation %s", name,
			structs.ShortID(holder))}
	}
	for _, other := range v.writers {
		name = g.HostVolumeConflict(other)
		if name != "" {
			return &rejects.Rejection{Reason: fmt.Sprintf("host volume %q has a writer of this job", name)}
		}
	}
	return nil
}
