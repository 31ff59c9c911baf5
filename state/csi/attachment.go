package csi

import (
	"maps"
	"slices"

	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/structs"
)

// attachFor puts the attachment that a granted claim needs, unless the plugin does not attach or the node has
// the attachment for another claim.
func attachFor(tx *mvcc.WriteTx, c *structs.CSIClaim, now int64) {
	p := Plugin(tx, c.PluginID)
	if p == nil || !p.SupportsAttachDetach ||
		Attachment(tx, c.Namespace, c.VolumeID, c.NodeID) != nil {
		return
	}

	v := Volume(tx, c.Namespace, c.VolumeID)
	external := ExternalNode(tx, c.PluginID, c.NodeID)
	if external == "" {
		// A claim that is just granted has a known node: see NodeBlock. An older claim gets its
		// attachment when the node reports: see grantOnNode.
		return
	}

	// It has a copy of all that the calls need: a volume that is deregistered by force is detached after its
	// row is gone. A plugin without PUBLISH_READONLY gets no readonly (CSI spec, ControllerPublishVolume).
	schema.Attachments.Put(tx, &structs.CSIAttachment{
		Namespace:        c.Namespace,
		VolumeID:         c.VolumeID,
		NodeID:           c.NodeID,
		PluginID:         c.PluginID,
		ExternalVolumeID: v.ExternalID,
		ExternalNodeID:   external,
		AccessMode:       c.AccessMode,
		AttachmentMode:   c.AttachmentMode,
		ReadOnly:         c.AccessMode.ReaderOnly() && p.SupportsReadOnly,
		MountOptions:     v.MountOptions,
		VolumeContext:    maps.Clone(v.Context),
		Secrets:          v.Secrets.Copy(),
		SealedSecrets:    v.SealedSecrets,
		State:            structs.AttachmentAttaching,
		CreateTime:       now,
		ModifyTime:       now,
	})
}

// detachUnused marks the attachment that a claim used for a detach, unless another claim on the node uses it.
// An attachment that is still attaching is marked too: only a detach makes sure that nothing is left of it.
func detachUnused(tx *mvcc.WriteTx, c *structs.CSIClaim, now int64) {
	a := Attachment(tx, c.Namespace, c.VolumeID, c.NodeID)
	if a == nil || a.State == structs.AttachmentDetaching ||
		InUse(tx, a) {
		return
	}

	a = a.Copy()
	a.State = structs.AttachmentDetaching

	// The error is the attach's. The first detach is due now.
	a.LastError = nil
	a.ModifyTime = now
	schema.Attachments.Put(tx, a)
}

// MarkForced records in the attachment of a claim that the claim is released without its node: see
// CSIAttachment.Forced.
func MarkForced(tx *mvcc.WriteTx, c *structs.CSIClaim) {
	a := Attachment(tx, c.Namespace, c.VolumeID, c.NodeID)
	if c.State == structs.ClaimGranted && a != nil && !a.Forced {
		a = a.Copy()
		a.Forced = true
		schema.Attachments.Put(tx, a)
	}
}

// attachGranted puts the attachments of a plugin that has begun to attach after claims of its volumes were
// granted without them.
func attachGranted(tx *mvcc.WriteTx, plugin string, now int64) {
	for v := range schema.VolumesByPlugin.Scan(tx, plugin) {
		for _, c := range ClaimsByVolume(tx, v.Namespace, v.ID) {
			// A waiting claim gets its attachment with its grant.
			if c.State == structs.ClaimGranted {
				attachFor(tx, c, now)
			}
		}
	}
}

// AttachmentOutcome records the outcome of an attach or a detach. It ignores the outcome if the attachment no
// longer needs that call, or was created later.
func AttachmentOutcome(tx *mvcc.WriteTx, p *structs.CSIAttachmentOutcome) error {
	expected := map[string]string{
		"attach": structs.AttachmentAttaching,
		"detach": structs.AttachmentDetaching,
	}[p.Op]
	if expected == "" {
		return structs.Invalidf("%q is neither attach nor detach", p.Op)
	}

	a := Attachment(tx, p.RequestNamespace(), p.VolumeID, p.NodeID)
	if a == nil || a.State != expected ||
		p.RowIndex != 0 && p.RowIndex != a.CreateIndex {
		return nil
	}

	a = a.Copy()
	a.ModifyTime = p.Now

	// A call without a final answer may still take effect, and its row delays the next one.
	if !p.KeepCall {
		a.Call = nil
	}

	switch {
	case p.Err != nil:
		a.LastError = CountFailure(a.LastError, p.Err)
	case p.Op == "attach":
		a.State = structs.AttachmentAttached
		a.PublishContext = p.PublishContext
		a.LastError = nil
	default:
		DropAttachment(tx, a, p.Now)
		return nil
	}

	schema.Attachments.Put(tx, a)
	return nil
}

// CountFailure returns the new last error of an operation, with the number of its failures.
func CountFailure(last, now *structs.OperationError) *structs.OperationError {
	e := *now
	e.Attempts = 1
	if last != nil {
		e.Attempts = last.Attempts + 1
	}
	return &e
}

// retryAttaches makes the failed attaches of a volume due now, because a found attachment is gone.
func retryAttaches(tx *mvcc.WriteTx, found *structs.CSIAttachment) {
	own := slices.Collect(AttachmentsByVolume(tx, found.Namespace, found.VolumeID))
	for _, a := range own {
		if a.State == structs.AttachmentAttaching &&
			a.LastError != nil {
			a = a.Copy()
			a.LastError = nil
			schema.Attachments.Put(tx, a)
		}
	}
}
