package csi

import (
	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/structs"
)

// Bound claims of a volume, with the mode single-node-multi-writer, may be granted at once, but only on
// one node. Two of them on different nodes exclude each other, whatever their classes are. Claims of other
// modes conflict with them by their classes.

// boundTo returns the node of the granted bound claims of a volume, "" for none.
func boundTo(tx mvcc.Reader, v *structs.CSIVolume) string {
	holder := BoundHolder(tx, v, nil)
	if holder == nil {
		return ""
	}
	return holder.NodeID
}

// BoundHolder returns a granted claim that binds a volume to its node, nil for none. It leaves out the claims
// of the allocations for which ignore is true; nil ignores none.
func BoundHolder(tx mvcc.Reader, v *structs.CSIVolume, ignore func(allocID string) bool) *structs.CSIClaim {
	stays := func(c *structs.CSIClaim) bool { return ignore == nil || !ignore(c.AllocID) }
	for _, k := range ClassesIn(tx, v, structs.ClaimGranted) {
		if !k.Bound() {
			continue
		}
		holder := firstClaim(tx, v, classState{k, structs.ClaimGranted}, stays)
		if holder != nil {
			return holder
		}
	}
	return nil
}

// excludedByNode reports whether a granted claim on another node excludes a claim, which may have any mode:
// one of another mode than the granted claim conflicts with it anyway.
func excludedByNode(tx mvcc.Reader, v *structs.CSIVolume, c *structs.CSIClaim) bool {
	holder := BoundHolder(tx, v, nil)
	return holder != nil && holder.NodeID != c.NodeID
}

// boundReason describes the claim that excludes a bound claim by its node: one that is granted, or one ahead
// of it in the queue. It returns "" if there is none.
func boundReason(tx mvcc.Reader, v *structs.CSIVolume, c *structs.CSIClaim) string {
	if !c.Class().Bound() {
		return ""
	}
	node := c.NodeID
	if holder := BoundHolder(tx, v, nil); holder != nil {
		node = holder.NodeID
		if node != c.NodeID {
			return DescribeHolder(tx, holder)
		}
	}
	first := boundAhead(tx, v, c, node)
	if first == nil {
		return ""
	}
	return "ahead in the queue: allocation " + first.AllocID + " on node " + NodeName(tx, first.NodeID)
}

// boundAhead returns the first claim that waits ahead of c on another node than the given one, nil if there
// is none among the first of the queue. No claim ahead of c has another mode: it would conflict with c, which
// is the reason then.
func boundAhead(
	tx mvcc.Reader, v *structs.CSIVolume, c *structs.CSIClaim, node string,
) (first *structs.CSIClaim) {
	for _, k := range ClassesIn(tx, v, structs.ClaimWaiting) {
		rows := schema.ClaimsByClass.Cursor(tx, v.Namespace, v.ID, structs.ClaimWaiting, schema.ClassKey(k))
		for range farAhead {
			other := rows.Next()
			if other == nil || InQueueOrder(other, c) >= 0 {
				break
			}
			if other.NodeID != node && (first == nil || InQueueOrder(other, first) < 0) {
				first = other
				break
			}
		}
	}
	return first
}

// NoMultiWriter returns the fault of a plugin for the mode single-node-multi-writer on a node, "" for none:
// a healthy instance is known not to announce SINGLE_NODE_MULTI_WRITER. The node is "" for any.
func NoMultiWriter(tx mvcc.Reader, plugin, node string) string {
	if lacksMultiWriter(tx, plugin, node) {
		return "CSI plugin " + plugin + " " + structs.NoMultiWriter
	}
	return ""
}

// lacksMultiWriter looks at a controller, and at the node half of the node. Without a node it looks at all
// node halves of a plugin that has no controller.
func lacksMultiWriter(tx mvcc.Reader, plugin, node string) bool {
	for i := range InstancesByPluginKind(tx, plugin, structs.CSIKindController) {
		if i.Healthy && i.ControllerInfo != nil {
			if !i.ControllerInfo.SupportsSingleNodeMultiWriter {
				return true
			}
			break
		}
	}

	if node != "" {
		half := Instance(tx, plugin, structs.CSIKindNode, node)
		return half != nil && half.Healthy && half.NodeInfo != nil && !half.NodeInfo.MultiWriter
	}

	row := Plugin(tx, plugin)
	if row == nil || row.ControllerRequired {
		return false
	}
	known := false
	for half := range InstancesByPluginKind(tx, plugin, structs.CSIKindNode) {
		if half.NodeReport().MultiWriter {
			return false
		}
		known = known || half.Healthy && half.NodeInfo != nil
	}
	return known
}
