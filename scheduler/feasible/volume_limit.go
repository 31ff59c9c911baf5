package feasible

import (
	"fmt"
	"maps"
	"slices"

	"berth/scheduler/rejects"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
)

// volumesWithinLimit counts, for each plugin, the different volumes that count against the node's limit, the
// volumes of allocations that are placed there and have not claimed yet, and this allocation's. Volumes that
// leave with the predecessor do not count.
func volumesWithinLimit(p *Outlook, d *Demand, v *NodeView) *rejects.Rejection {
	for _, u := range d.Uses {
		plugin := u.Volume.PluginID
		limit := p.volumeLimit(v, plugin)

		// A plugin without a limit reports 0 (CSI NodeGetInfo, max_volumes_per_node).
		if limit <= 0 {
			continue
		}

		// The sum counts shared volumes twice, so it is an upper bound. Most nodes are far from their limit,
		// and need no sets.
		bound := len(p.attachedOn(v, plugin)) +
			v.volumes().wanted + len(v.volumes().intended) + len(d.Uses)
		if int64(bound) <= limit {
			continue
		}

		volumes := p.volumesOn(v, plugin)
		added := d.addedTo(volumes, plugin)
		leaving := p.leavingWith(d, v, plugin)

		// The first condition lets an update continue on a node that is above its limit already.
		if len(added) <= len(leaving) ||
			int64(len(volumes)+len(added)-len(leaving)) <= limit {
			continue
		}

		maps.Copy(volumes, added)
		keys := p.keysOfVolumes(volumes)
		return &rejects.Rejection{
			Reason: fmt.Sprintf("CSI plugin %s has its limit of %d volumes on this node", plugin, limit),
			Keys:   append(keys, structs.WakePlugin(plugin)),
		}
	}
	return nil
}

// volumeLimit returns the most volumes of a plugin that a node takes, 0 for any number.
func (p *Outlook) volumeLimit(v *NodeView, plugin string) int64 {
	return p.storageOn(v, plugin).half.NodeReport().MaxVolumes
}

// addedTo returns the volumes of a plugin that a placement adds to others.
func (d *Demand) addedTo(
	volumes map[string]*structs.CSIClaim, plugin string,
) map[string]*structs.CSIClaim {
	added := map[string]*structs.CSIClaim{}
	for _, u := range d.Uses {
		key := volumeKey(u.claim)
		if u.Volume.PluginID == plugin && volumes[key] == nil {
			added[key] = u.claim
		}
	}
	return added
}

// volumesOn returns the volumes of a plugin that count, or will count, against the limit of a node.
func (p *Outlook) volumesOn(v *NodeView, plugin string) map[string]*structs.CSIClaim {
	// A copy: the plan's own claims must not enter what storage keeps for all demands.
	volumes := maps.Clone(p.attachedOn(v, plugin))
	for _, key := range v.volumes().given {
		delete(volumes, key)
	}
	for _, c := range p.intendedOn(v) {
		if c.PluginID == plugin {
			volumes[volumeKey(c)] = c
		}
	}
	return volumes
}

// intendedOn returns the claims that allocations will make on a node, unless the plan stops the allocations.
func (p *Outlook) intendedOn(v *NodeView) []*structs.CSIClaim {
	at := v.volumes()
	intended := slices.Clone(at.intended)
	for _, a := range at.users {
		intended = append(intended, state.IntendedBy(p, a)...)
	}
	return slices.DeleteFunc(intended, func(c *structs.CSIClaim) bool { return p.stopped[c.AllocID] })
}

// leavingWith returns the volumes of a plugin that leave a node when the allocation has ended that an update
// stops there. The successor waits on the node for that end, and then for the detach: see
// state.AttachmentWaits. Volumes that others use there, or the successor, stay.
func (p *Outlook) leavingWith(d *Demand, v *NodeView, plugin string) (keys []string) {
	if d.Leaves == nil || d.Leaves.NodeID != v.Node.ID || !p.stopped[d.Leaves.ID] {
		return nil
	}

	// A volume leaves only if neither a claim nor a placed allocation nor the successor itself keeps it
	// there.
	used := map[string]bool{} // by others
	for c := range csi.ClaimsByNode(p, v.Node.ID) {
		used[volumeKey(c)] = used[volumeKey(c)] || c.AllocID != d.Leaves.ID
	}

	for _, c := range p.intendedOn(v) {
		used[volumeKey(c)] = true
	}

	for _, u := range d.Uses {
		used[volumeKey(u.claim)] = true
	}

	for c := range csi.ClaimsByAlloc(p, d.Leaves.ID) {
		if c.PluginID == plugin && !used[volumeKey(c)] {
			keys = append(keys, volumeKey(c))
		}
	}

	return keys
}

// giveVolumePlaces gives a successor the places of the volumes that leave with its predecessor, as far as it
// adds others. The rest of the places is free only when the predecessor has ended.
func (p *Outlook) giveVolumePlaces(d *Demand, v *NodeView) {
	for _, u := range d.Uses {
		plugin := u.Volume.PluginID
		if p.volumeLimit(v, plugin) <= 0 {
			continue
		}
		leaving := p.leavingWith(d, v, plugin)
		if len(leaving) == 0 {
			continue
		}
		added := d.addedTo(p.volumesOn(v, plugin), plugin)
		at := v.volumes()
		at.given = append(at.given, leaving[:min(len(leaving), len(added))]...)
	}
}
