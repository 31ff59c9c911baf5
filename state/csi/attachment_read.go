package csi

import (
	"fmt"
	"iter"

	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/structs"
)

// Attachment returns the attachment, nil if there is none.
func Attachment(tx mvcc.Reader, ns, volume, node string) *structs.CSIAttachment {
	return schema.Attachments.Get(tx, ns, volume, node)
}

// AttachmentsByVolume yields a volume's attachments by node.
func AttachmentsByVolume(tx mvcc.Reader, ns, volume string) iter.Seq[*structs.CSIAttachment] {
	return schema.Attachments.Scan(tx, ns, volume)
}

// AttachmentsByNode yields the attachments to a node.
func AttachmentsByNode(tx mvcc.Reader, node string) iter.Seq[*structs.CSIAttachment] {
	return schema.AttachmentsByNode.Scan(tx, node)
}

// UnsettledAttachments yields the attachments for which the leader has a call to make.
func UnsettledAttachments(tx mvcc.Reader) iter.Seq[*structs.CSIAttachment] {
	return schema.UnsettledAttachments.Scan(tx)
}

// AttachedAs returns an attachment of the volume with this ID of the plugin, under any name of the volume,
// and nil if there is none.
func AttachedAs(tx mvcc.Reader, plugin, external string) *structs.CSIAttachment {
	return schema.AttachmentsByExternal.First(tx, plugin, external)
}

// fewClaims is the most claims of a volume that InUse reads instead of the claims of a node.
const fewClaims = 64

// InUse reports whether a claim of the attachment's volume is granted on its node. It reads the claims of the
// volume if they are few, otherwise the node's, which are no more than its allocations need.
func InUse(tx mvcc.Reader, a *structs.CSIAttachment) bool {
	granted := 0
	waiting := 0
	for _, n := range ClassCounts(tx, a.Namespace, a.VolumeID) {
		granted += n.Granted
		waiting += n.Waiting
	}

	candidates := ClaimsByNode(tx, a.NodeID)
	switch {
	// The counts answer it without a claim.
	case granted == 0:
		return false
	case granted+waiting <= fewClaims:
		candidates = schema.Claims.Scan(tx, a.Namespace, a.VolumeID)
	}

	for c := range candidates {
		if c.State == structs.ClaimGranted &&
			c.NodeID == a.NodeID && c.VolumeID == a.VolumeID &&
			c.Namespace == a.Namespace {
			return true
		}
	}

	return false
}

// ExternalNode returns a plugin's own ID of a node, "" if it is not known.
func ExternalNode(tx mvcc.Reader, plugin, node string) string {
	half := Instance(tx, plugin, structs.CSIKindNode, node)

	// The IDs of nodes belong to one driver: another one may mean another node by the same ID.
	if half == nil || half.OtherDriver {
		return ""
	}
	return half.NodeReport().ID
}

// NodeOfExternal returns the node that a plugin knows by its own ID, "" if there is none.
func NodeOfExternal(tx mvcc.Reader, plugin, external string) string {
	// An instance of another driver may have the same ID for another node.
	for i := range InstancesByPluginKind(tx, plugin, structs.CSIKindNode) {
		if i.NodeInfo != nil &&
			i.NodeInfo.ID == external &&
			!i.OtherDriver {
			return i.NodeID
		}
	}
	return ""
}

// Recovering returns which node has still to report that it holds no volume without a claim, with the remedy
// if this does not end by itself. It returns "" if all nodes have.
func Recovering(tx mvcc.Reader) string {
	n := schema.UnaccountedNodes.First(tx)
	switch {
	case n == nil:
		return ""
	case n.Leftovers != nil:
		return recoveringNode(tx, n, n.Leftovers[0])
	}
	return recoveringNode(tx, n, structs.NodeLeftover{})
}

// VolumeRecovering is Recovering for one volume. A node that was deleted and came back has told which volumes
// it may hold, and the others do not wait for it. After a restore a node may hold any volume.
func VolumeRecovering(tx mvcc.Reader, ns, volume string) string {
	for n := range schema.UnaccountedNodes.Scan(tx) {
		if MayHold(tx, n, ns, volume) {
			return recoveringNode(tx, n, structs.NodeLeftover{Namespace: ns, VolumeID: volume})
		}
	}
	return ""
}

// AllRecovering reports whether every volume waits for a node: since a restore it may hold any.
func AllRecovering(tx mvcc.Reader) bool {
	for n := range schema.UnaccountedNodes.Scan(tx) {
		if n.Leftovers == nil {
			return true
		}
	}
	return false
}

// MayHold reports whether an unaccounted node may hold a volume.
func MayHold(tx mvcc.Reader, n *structs.Node, ns, volume string) bool {
	asked := structs.NodeLeftover{Namespace: ns, VolumeID: volume}
	v := Volume(tx, ns, volume)
	if v != nil {
		asked.PluginID = v.PluginID
		asked.ExternalID = v.ExternalID
	}
	return n.MayHold(asked)
}

// recoveringNode says why a volume waits for a node.
func recoveringNode(tx mvcc.Reader, n *structs.Node, v structs.NodeLeftover) string {
	name := NodeName(tx, n.ID)
	text := fmt.Sprintf("the servers' state was restored from a snapshot, "+
		"and node %s has not yet reported that all its volumes have claims", name)
	if n.Leftovers != nil {
		text = fmt.Sprintf("node %s was deleted and came back, and may still have volume %s of namespace %s from before", name, v.VolumeID, v.Namespace)
	}

	switch {
	case n.Status == structs.NodeDown:
		text += "; it is down: bring it back or, once it is certainly off, delete it: berth node purge " + n.ID
	case n.Leftovers != nil:
		text += "; it lets go of the volume once the plugin works there: see berth node status " + n.ID +
			"; if it cannot, power it off, and then: berth node purge " + n.ID
	}
	return text
}

// AttachmentWaits returns why the call of an attachment cannot be made yet, and "" if it can. A volume for a
// single node is not attached before it is detached everywhere else. A node at the limit of its plugin gets
// no volume before another one is detached from it.
func AttachmentWaits(tx mvcc.Reader, a *structs.CSIAttachment) string {
	// A node that has not reported may have the volume, without a row that tells so.
	if why := VolumeRecovering(tx, a.Namespace, a.VolumeID); why != "" {
		return why
	}

	// A detach only takes access away, so it waits for no other node.
	if a.State != structs.AttachmentAttaching {
		return ""
	}

	if a.AccessMode.SingleNode() {
		// Any other row counts, also one that is attaching: its call may have taken effect already.
		for other := range AttachmentsByVolume(tx, a.Namespace, a.VolumeID) {
			if other.NodeID != a.NodeID {
				return stillAttached(tx, other)
			}
		}
	}

	return limitWait(tx, a)
}

// limitWait returns the detach for which an attachment waits because its node has more volumes of the plugin
// than it takes, and "" if there is none. The wait is bounded: a detach that has failed may never succeed, so
// the plugin decides whether it takes the volume then.
func limitWait(tx mvcc.Reader, a *structs.CSIAttachment) string {
	limit := Instance(tx, a.PluginID, structs.CSIKindNode, a.NodeID).NodeReport().MaxVolumes
	if limit <= 0 {
		return ""
	}

	var leaving *structs.CSIAttachment
	volumes := int64(0)
	for other := range AttachmentsByNode(tx, a.NodeID) {
		if other.PluginID != a.PluginID {
			continue
		}

		volumes++
		if leaving == nil && other.State == structs.AttachmentDetaching && other.LastError == nil {
			leaving = other
		}
	}

	// The attachment that waits is one of these volumes.
	if volumes <= limit || leaving == nil {
		return ""
	}

	return fmt.Sprintf("plugin %s has its limit of %d volumes on the node; %s",
		a.PluginID, limit, stillAttached(tx, leaving))
}
