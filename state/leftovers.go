package state

import (
	"slices"

	"berth/state/schema"
	"berth/structs"
)

// A node that was deleted and comes back may have volumes that the servers do not know of any more. Its row
// lists them (structs.Node.Leftovers), and only they wait until the node has let go of them.

// mostLeftovers bounds the volumes that a row names. A node with more may hold any.
const mostLeftovers = 1000

// leftoversOf lists the volumes of the inventory with which a node registers.
func leftoversOf(i *structs.NodeInventory) (left []structs.NodeLeftover) {
	seen := map[structs.NodeLeftover]bool{}
	for _, h := range slices.Concat(i.Held, i.Left) {
		l := structs.NodeLeftover{
			Namespace:  h.Namespace,
			VolumeID:   h.VolumeID,
			PluginID:   h.PluginID,
			ExternalID: h.ExternalVolumeID,
		}
		if !seen[l] {
			seen[l] = true
			left = append(left, l)
		}
	}
	if len(left) > mostLeftovers {
		left = append(left[:mostLeftovers], structs.NodeLeftover{})
	}
	return left
}

// StillLeft returns the leftovers of a node that its later inventory has still without a claim. The
// attachments in the inventory have to be in rows before (see Unrecorded), because the others no longer wait
// for the node.
func StillLeft(tx Reader, n *structs.Node, i *structs.NodeInventory) (still []structs.NodeLeftover) {
	for _, l := range n.Leftovers {
		has := func(h structs.CSIHeldClaim) bool {
			return h.Namespace == l.Namespace && h.VolumeID == l.VolumeID && !hasClaim(tx, n.ID, h)
		}
		if l.VolumeID == "" || slices.ContainsFunc(i.Held, has) {
			still = append(still, l)
		}
	}
	return still
}

// NodeLeftovers shortens the leftovers of a node. It never empties them: when the node has let go of all,
// NodeStatus makes it accounted for. It changes nothing for a node that is accounted for meanwhile, or that
// may hold any volume since a restore.
func NodeLeftovers(tx *WriteTx, p *structs.NodeLeftoversUpdate) error {
	n := Node(tx, p.NodeID)
	if n == nil {
		return nil
	}
	has := func(l structs.NodeLeftover) bool { return slices.Contains(p.Still, l) }
	gone := func(l structs.NodeLeftover) bool { return !has(l) }
	if slices.ContainsFunc(n.Leftovers, has) && slices.ContainsFunc(n.Leftovers, gone) {
		n = shallowCopy(n)
		n.Leftovers = slices.DeleteFunc(slices.Clone(n.Leftovers), gone)
		schema.Nodes.Put(tx, n)
	}
	return nil
}
