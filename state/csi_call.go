package state

import (
	"fmt"
	"time"

	"berth/structs"
)

// CallNote records which node a controller call goes to before it is made, or why a node does not let go of a
// claim's volume. A row that is gone, or that took the place of the one meant, is left alone.
func CallNote(tx *WriteTx, p *structs.CSICallNote) error {
	switch {
	case p.AllocID != "":
		noteRelease(tx, p)
	case p.NodeID != "":
		a := Attachment(tx.ReadTx, p.RequestNamespace(), p.VolumeID, p.NodeID)
		if a == nil || a.CreateIndex != p.RowIndex || !a.Unsettled() {
			return nil
		}
		a = a.Copy()
		a.Call = p.Call
		if p.Secrets != nil {
			a.Secrets = p.Secrets
		}
		attachments.Put(tx, a)
	default:
		v := Volume(tx.ReadTx, p.RequestNamespace(), p.VolumeID)
		if v == nil || v.CreateIndex != p.RowIndex {
			return nil
		}
		v = v.Copy()
		v.Call = p.Call
		changeQuietly(tx, v)
	}
	return nil
}

func noteRelease(tx *WriteTx, p *structs.CSICallNote) {
	c := Claim(tx.ReadTx, p.RequestNamespace(), p.VolumeID, p.AllocID)
	if c == nil || c.CreateIndex != p.RowIndex {
		return
	}
	c = c.Copy()
	if p.Err == nil {
		c.ReleaseError = nil
	} else {
		c.ReleaseError = failedAgain(c.ReleaseError, p.Err)
	}
	storeClaim(tx, c)
}

// VolumeForce releases a node's claims of a volume, or forgets its attachment, and records who vouched for it
// and why. An attachment that is in use again, or is another than the one that was looked at, is refused.
func VolumeForce(tx *WriteTx, p *structs.CSIVolumeForceRequest) error {
	ns := p.RequestNamespace()
	release := &structs.CSIVolumeUnpublishRequest{Claims: p.Claims, NodeID: p.NodeID,
		Operator: "forced: " + p.Reason, WriteOptions: p.WriteOptions}
	if err := VolumeUnpublish(tx, release); err != nil {
		return err
	}
	if p.Attachment != 0 {
		a := Attachment(tx.ReadTx, ns, p.VolumeID, p.NodeID)
		if a == nil || a.CreateIndex != p.Attachment || a.State != structs.AttachmentDetaching {
			return structs.Errorf(structs.KindConflict,
				"the attachment of volume %q to node %s has changed meanwhile; look at it again: berth volume status %s",
				p.VolumeID, nodeName(tx.ReadTx, p.NodeID), p.VolumeID)
		}
		dropAttachment(tx, a, p.Now)
	}
	if v := Volume(tx.ReadTx, ns, p.VolumeID); v != nil {
		v = v.Copy()
		v.Forced = &structs.CSIForced{NodeID: p.NodeID, What: p.What, By: p.By, Reason: p.Reason, Time: p.Now}
		changeQuietly(tx, v)
	}
	if n := Node(tx.ReadTx, p.NodeID); n != nil {
		n = edited(n)
		addEvents(tx, n, []*structs.NodeEvent{{Message: fmt.Sprintf("Volume %s: %s, by %s: %s", p.VolumeID, p.What, p.By, p.Reason),
			Subsystem: "Storage", Timestamp: time.Unix(0, p.Now).UTC()}})
		nodes.Put(tx, n)
	}
	return nil
}

// AttachedAs returns an attachment of the volume that the plugin knows by this ID, whatever it was called
// when it was attached; nil if there is none.
func AttachedAs(tx *ReadTx, plugin, external string) *structs.CSIAttachment {
	return attachmentsByExternal.First(tx, plugin, external)
}

// dropAttachment deletes an attachment and all that follows from it.
func dropAttachment(tx *WriteTx, a *structs.CSIAttachment, now int64) {
	attachments.Delete(tx, a)
	unreferPlugin(tx, a.PluginID)
	rebindDriver(tx, a.PluginID, now)
	retryExpansion(tx, a.Namespace, a.VolumeID)
	if a.Found {
		attachNow(tx, a)
	}
	grant(tx, a.Namespace, a.VolumeID, now)
	wakeRoom(tx, structs.CSIClaimKey{Namespace: a.Namespace, VolumeID: a.VolumeID}, a.PluginID, a.NodeID)
}
