package state

import (
	"cmp"
	"slices"

	"berth/state/clustertime"
	"berth/state/csi"
	"berth/state/csi/snapshot"
	"berth/state/lease"
	"berth/state/schema"
	"berth/state/trust"
	"berth/state/unblock"
	"berth/structs"
	"berth/structs/cluster"
)

// A state that is restored from a snapshot has gone back in time. It does not know later grants and
// attachments, and nodes may write to volumes that are free in it. So each node is unaccounted until it has
// reported its volumes and holds none without a claim. Until then no volume is attached, detached, deleted or
// claimed. No time ends this: an operator deletes a node that does not come back, and so asserts that it is
// off.
//
// The intents in the rows are valid: jobs, volumes, claims, drain. Their reports on nodes and storage are
// not: nodes report again, and the leader repeats the calls whose effects it needs.

// Recover prepares a restored state. It marks every node as unaccounted, also a down one, because it may have
// come back after the snapshot. An attached volume is to be attached again, because it may be detached by now
// (ControllerPublishVolume is idempotent). A deletion is cancelled: since the snapshot it may have been
// executed, and another volume may have the plugin's ID. An order to fence a node is deleted: the node may
// have come back since the operator gave it.
//
// before is the replaced state. Recover takes over its nodes, its attachments, its tokens of Consul, its
// deletions of tokens, its root keys, its bound of leases, its revocations, its authorities if they are
// later, its pins for fence devices if it has any, and the controller calls with an unknown outcome. No join
// token is left. An attachment that the restored state lacks is to be detached, unless a granted claim of the
// restored state uses it.
func Recover(tx *WriteTx, before Reader, now int64) {
	for _, n := range slices.Collect(Nodes(tx)) {
		// One that was deleted and came back may hold other volumes by now than it has reported then.
		returned := n.Unaccounted && n.Leftovers != nil
		if returned || !n.Unaccounted && !surelyEmpty(before, n.ID) {
			putUnaccounted(tx, shallowCopy(n), now)
		}
	}

	for n := range Nodes(before) {
		if Node(tx, n.ID) == nil && !surelyEmpty(before, n.ID) {
			n = shallowCopy(n)
			n.SetCSIInstances(nil) // it registers again
			putUnaccounted(tx, n, now)
		}
	}

	for _, a := range slices.Collect(schema.Attachments.Scan(tx)) {
		if a.State == structs.AttachmentAttached {
			a = a.Copy()
			a.State = structs.AttachmentAttaching
			a.ModifyTime = now
			schema.Attachments.Put(tx, a)
		}
	}

	for _, v := range slices.Collect(csi.UnsettledVolumes(tx)) {
		if v.State == structs.VolumeDeleting || v.Marked() {
			cancelDeletion(tx, v.Copy(), now)
		}
	}

	snapshot.KeepDeleted(tx)
	for _, o := range slices.Collect(FenceOrders(tx)) {
		schema.FenceOrders.Delete(tx, o)
	}

	for a := range schema.Attachments.Scan(before) {
		keepUsedAttachment(tx, a, now)
		putFoundAttachment(tx, a, now)
	}

	// Servers that go on from this state may have lost what they had acknowledged, and an operator wants it so.
	clustertime.ForgetStored(tx)
	keepCalls(tx, before)
	keepAccess(tx, before)
	trust.KeepSITokens(tx, before, now)
	keepLeaseBound(tx, before)
	keepFencePins(tx, before)
	keepRootKeys(tx, before)
	trust.Keep(tx, before, now)
	trust.KeepSigningKeys(tx, before, now)
}

// keepRootKeys keeps the root keys that the restored state lacks, because the rows that are taken over may
// have secrets that they encrypt. The restored state has the keys of its own secrets, and its active key
// stays active.
func keepRootKeys(tx *WriteTx, before Reader) {
	hasActive := trust.ActiveRootKey(tx) != nil
	for was := range trust.RootKeys(before) {
		if trust.RootKey(tx, was.KeyID) != nil {
			continue
		}
		k := new(*was)
		if hasActive && k.State == cluster.RootKeyActive {
			k.State = cluster.RootKeyInactive
		}
		schema.RootKeys.Put(tx, k)
	}
}

// keepLeaseBound keeps the longer bound of leases, and the longer lease of each node: the leaders of the
// replaced state have granted the leases that the nodes count now.
func keepLeaseBound(tx *WriteTx, before Reader) {
	longest := lease.Bound(before)
	if longest > lease.Bound(tx) {
		schema.LeaseBounds.Put(tx, &cluster.LeaseBound{Longest: longest})
	}

	for was := range lease.NodeLeases(before) {
		now := schema.NodeLeases.Get(tx, was.NodeID)
		if Node(tx, was.NodeID) != nil && (now == nil || now.Length < was.Length) {
			schema.NodeLeases.Put(tx, &cluster.NodeLease{NodeID: was.NodeID, Length: was.Length})
		}
	}
}

// keepUsedAttachment keeps an attachment that the restored state lacks although it has a granted claim that
// uses it: the plugin may have begun to attach after the snapshot. It is to be attached again, with the
// arguments that it was attached with, and is detached with its last claim.
func keepUsedAttachment(tx *WriteTx, was *structs.CSIAttachment, now int64) {
	a := underPresentName(tx, was)
	if csi.Attachment(tx, a.Namespace, a.VolumeID, a.NodeID) != nil ||
		!csi.InUse(tx, a) {
		return
	}
	a.State = structs.AttachmentAttaching
	a.Found = false
	putForCall(tx, a, now)
}

// putForCall puts the row of an attachment that needs a call, without the answers to earlier calls.
func putForCall(tx *WriteTx, a *structs.CSIAttachment, now int64) {
	a.ModifyTime = now
	a.PublishContext = nil
	a.LastError = nil
	schema.Attachments.Put(tx, a)
	csi.EnsurePlugin(tx, a.PluginID)
}

// keepCalls copies the calls in flight of the replaced state to the rows of the restored state, because the
// calls still take effect. A volume that exists only in before stays deleted: no row requests another call
// for it.
func keepCalls(tx *WriteTx, before Reader) {
	for was := range schema.Attachments.Scan(before) {
		was = underPresentName(tx, was)
		a := csi.Attachment(tx, was.Namespace, was.VolumeID, was.NodeID)
		if a != nil && laterCall(was.Call, a.Call) {
			a = a.Copy()
			a.Call = was.Copy().Call
			schema.Attachments.Put(tx, a)
		}
	}

	for was := range schema.Volumes.Scan(before) {
		v := csi.Volume(tx, was.Namespace, was.ID)
		same := schema.VolumesByPlugin.First(tx, was.PluginID, was.ExternalID)
		if was.ExternalID != "" && same != nil {
			v = same // under another name, perhaps
		}

		if v != nil && laterCall(was.Call, v.Call) {
			v = v.Copy()
			v.Call = was.Copy().Call
			unblock.PutVolumeWithout(tx, v)
		}
	}
}

// laterCall reports whether a was sent after b. Each may be nil.
func laterCall(a, b *structs.CSICall) bool {
	return a != nil && (b == nil || a.Time > b.Time)
}

// surelyEmpty reports whether a node surely holds no volume: in the replaced state the node is down and has
// no claim, attachment or allocation. The servers do not wait for such a node.
func surelyEmpty(before Reader, id string) bool {
	n := Node(before, id)
	return n != nil && n.Status == structs.NodeDown &&
		!n.Unaccounted && LeftOnNode(before, id) == "" &&
		!schema.AttachmentsByNode.Has(before, id)
}

func putUnaccounted(tx *WriteTx, n *structs.Node, now int64) {
	n.Unaccounted = true
	n.Leftovers = nil // any
	const text = "The servers' state was restored from a snapshot: the node has to report its volumes"
	addEvents(tx, n, serverEvent("Cluster", text, now))
	schema.Nodes.Put(tx, n)
}

// cancelDeletion cancels the deletion of a volume. A volume without an external ID may or may not exist, so
// it is created again.
func cancelDeletion(tx *WriteTx, v *structs.CSIVolume, now int64) {
	v.State = structs.VolumeReady
	v.DeleteAt = 0
	v.DeleteCause = ""
	v.ModifyTime = now
	csi.EndDeletion(v)
	csi.Disown(v)
	if v.ExternalID == "" {
		v.State = structs.VolumeCreating
	}
	v.LastError = &structs.OperationError{
		Kind:     structs.KindPrecondition,
		Attempts: 1,
		Time:     now,
		Message: "the servers' state was restored from a snapshot in which the volume was being deleted; " +
			"delete it again if it is to go",
	}
	unblock.PutVolumeWithout(tx, v)
}

// Unclaimed returns a volume that a node holds without the claim under which it was brought there, "" if
// there is none.
func Unclaimed(tx Reader, node string, inventory *structs.NodeInventory) string {
	for _, h := range inventory.Held {
		if !hasClaim(tx, node, h) {
			return h.VolumeID
		}
	}
	return ""
}

func hasClaim(tx Reader, node string, h structs.CSIHeldClaim) bool {
	c := csi.Claim(tx, h.Namespace, h.VolumeID, h.AllocID)
	return c != nil && c.NodeID == node &&
		c.State == structs.ClaimGranted &&
		(h.GrantIndex == 0 || h.GrantIndex == c.GrantIndex)
}

// Unrecorded returns the attachments in a node's inventory that have no row, without those to another node:
// the servers would detach the volume there, where others use it.
func Unrecorded(
	tx Reader,
	node string,
	inventory *structs.NodeInventory,
) (found []*structs.CSIAttachment) {
	seen := map[csi.VolumeKey]bool{}
	for _, h := range slices.Concat(inventory.Held, inventory.Left) {
		k := csi.VolumeKey{Namespace: h.Namespace, VolumeID: h.VolumeID}
		a := CompleteFound(tx, &structs.CSIAttachment{
			Namespace:        h.Namespace,
			VolumeID:         h.VolumeID,
			NodeID:           node,
			PluginID:         h.PluginID,
			ExternalVolumeID: h.ExternalVolumeID,
			ExternalNodeID:   h.ExternalNodeID,
			AccessMode:       h.AccessMode,
			AttachmentMode:   h.AttachmentMode,
		})

		if a != nil && !seen[k] && !isOfAnother(tx, a) {
			seen[k] = true
			found = append(found, a)
		}
	}

	return found
}

// isOfAnother reports whether the plugin knows another node by the ID that a node gave as its own: that one
// has the volume attached under it, or reports it for itself.
func isOfAnother(tx Reader, found *structs.CSIAttachment) bool {
	for a := range csi.AttachmentsByVolume(tx, found.Namespace, found.VolumeID) {
		if a.NodeID != found.NodeID && a.PluginID == found.PluginID && a.ExternalNodeID == found.ExternalNodeID {
			return true
		}
	}

	if csi.ExternalNode(tx, found.PluginID, found.NodeID) == found.ExternalNodeID {
		return false
	}
	other := csi.NodeOfExternal(tx, found.PluginID, found.ExternalNodeID)
	return other != "" && other != found.NodeID
}

// AttachmentsFound puts rows for attachments that have none, so that the leader detaches them.
func AttachmentsFound(tx *WriteTx, p *structs.CSIAttachmentsFound) error {
	for _, a := range p.Attachments {
		if a == nil || a.Namespace == "" ||
			a.VolumeID == "" || a.NodeID == "" {
			return structs.Invalidf("an attachment that was found needs a namespace, a volume and a node")
		}
		putFoundAttachment(tx, a, p.Now)
	}
	return nil
}

func putFoundAttachment(tx *WriteTx, found *structs.CSIAttachment, now int64) {
	a := CompleteFound(tx, found)
	if a == nil {
		return
	}
	a.State = structs.AttachmentDetaching
	a.Found = true
	a.CreateTime = now
	putForCall(tx, a, now)
}

// CompleteFound returns a copy of a found attachment, completed from the rows. It returns nil if the
// attachment has a row, if a granted claim uses it, or if too little is known for a detach.
func CompleteFound(tx Reader, found *structs.CSIAttachment) *structs.CSIAttachment {
	a := underPresentName(tx, found)
	if csi.Attachment(tx, a.Namespace, a.VolumeID, a.NodeID) != nil ||
		csi.InUse(tx, a) {
		return nil
	}

	v := csi.Volume(tx, a.Namespace, a.VolumeID)
	if v != nil {
		a.PluginID = cmp.Or(a.PluginID, v.PluginID)
		a.ExternalVolumeID = cmp.Or(a.ExternalVolumeID, v.ExternalID)
	}

	if v != nil && a.Secrets == nil && a.SealedSecrets == nil &&
		a.PluginID == v.PluginID &&
		a.ExternalVolumeID == v.ExternalID {
		a.Secrets = v.Secrets.Copy()
		a.SealedSecrets = v.SealedSecrets
	}

	p := csi.Plugin(tx, a.PluginID)
	if a.ExternalNodeID == "" && p != nil &&
		p.SupportsAttachDetach {
		a.ExternalNodeID = csi.ExternalNode(tx, a.PluginID, a.NodeID)
	}

	if a.PluginID == "" || a.ExternalVolumeID == "" ||
		a.ExternalNodeID == "" {
		return nil
	}

	return a
}

// underPresentName returns a copy of an attachment under the present name of its volume. The volume may have
// been registered under another name after the snapshot, and its name may now belong to another volume.
// Claims and attachments wait for each other by name: under two names a volume would be detached from a node
// where a claim uses it. If the name is taken and the volume has no other, its name is the plugin's ID.
func underPresentName(tx Reader, found *structs.CSIAttachment) *structs.CSIAttachment {
	a := found.Copy()
	v := csi.Volume(tx, found.Namespace, found.VolumeID)
	if v != nil {
		a.PluginID = cmp.Or(a.PluginID, v.PluginID)
	}

	if a.ExternalVolumeID == "" {
		return a
	}

	now := schema.VolumesByPlugin.First(tx, a.PluginID, a.ExternalVolumeID)
	switch {
	case now != nil:
		a.Namespace = now.Namespace
		a.VolumeID = now.ID
	case v != nil && v.ExternalID != "":
		a.VolumeID = a.ExternalVolumeID
	}

	if a.SealedSecrets != nil && (a.VolumeID != found.VolumeID || a.Namespace != found.Namespace) {
		a.SealedSecrets = nil // they open under the former name alone
		if now != nil {
			a.Secrets = now.Secrets.Copy()
			a.SealedSecrets = now.SealedSecrets
		}
	}

	return a
}
