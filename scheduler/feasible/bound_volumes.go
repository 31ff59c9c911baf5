package feasible

import (
	"fmt"

	"berth/scheduler/rejects"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
)

// binds returns a claim, made or intended, that binds a use of a volume to its node, nil for none: the mode
// of the use allows several allocations on one node. A claim that is released without further action binds
// nothing, as it excludes nothing.
func binds(p *Outlook, u *VolumeUse) *structs.CSIClaim {
	if u.Volume == nil || !u.claim.Class().Bound() {
		return nil
	}

	holder := csi.BoundHolder(p, u.Volume, p.willRelease)
	if holder != nil {
		return holder
	}

	// Allocations that are placed and have not claimed yet. Those of other modes exclude the use anyway.
	for a := range state.AllocsOfVolume(p, u.claim.Namespace, u.claim.VolumeID) {
		if !p.stopped[a.ID] {
			c := *u.claim
			c.AllocID = a.ID
			c.NodeID = a.NodeID
			c.JobID = a.JobID
			return &c
		}
	}

	// The plan has placed these before. It stops none of them.
	if placed := p.intended[volumeKey(u.claim)]; len(placed) > 0 {
		return placed[0]
	}
	return nil
}

// volumesBoundHere checks that no volume is bound to another node, and that the plugin can bind volumes to
// this one.
func volumesBoundHere(p *Outlook, d *Demand, v *NodeView) *rejects.Rejection {
	for i := range d.Uses {
		u := &d.Uses[i]
		node := u.BoundNode()
		if node != "" && node != v.Node.ID {
			const text = "CSI volume %s: allocation %s (job %s) on node %s uses it, and access_mode %s allows one node"
			return &rejects.Rejection{
				Reason: fmt.Sprintf(text, u.claim.VolumeID, structs.ShortID(u.bound.AllocID), u.bound.JobID,
					csi.NodeName(p, node), u.claim.AccessMode),
				Keys: u.keys,
			}
		}
		if !u.claim.Class().Bound() {
			continue
		}
		if fault := csi.NoMultiWriter(p, u.Volume.PluginID, v.Node.ID); fault != "" {
			return &rejects.Rejection{Reason: "CSI volume " + u.claim.VolumeID + ": " + fault, Keys: u.keys}
		}
	}
	return nil
}
