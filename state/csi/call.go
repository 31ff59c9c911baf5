package csi

import (
	"fmt"
	"time"

	"berth/internal/mvcc"
	"berth/state/clustertime"
	"berth/state/schema"
	"berth/state/trust"
	"berth/state/unblock"
	"berth/structs"
)

// CallNote records the node of a controller call before the call is made, or the reason why a node does not
// release a claim's volume. It ignores a missing claim, or a later claim of the same key. For a call, a
// missing or later row is a conflict, because the next call would not wait for a call without a row.
func CallNote(tx *mvcc.WriteTx, p *structs.CSICallNote) error {
	switch {
	case p.AllocID != "":
		noteRelease(tx, p)
	case p.NodeID != "":
		return noteAttachmentCall(tx, p)
	default:
		// A call for the volume itself: to create, delete or expand it.
		v := Volume(tx, p.RequestNamespace(), p.VolumeID)
		if v == nil || v.CreateIndex != p.RowIndex {
			return structs.Conflictf("volume %q has changed meanwhile", p.VolumeID)
		}
		// Somebody may have kept the volume since the leader read its row: see VolumeUndelete.
		deletes := p.Call != nil && p.Call.Op == "delete"
		if deletes && v.State != structs.VolumeDeleting {
			return structs.Conflictf("volume %q is not being deleted any more", p.VolumeID)
		}

		v = v.Copy()
		v.DeleteCalled = v.DeleteCalled || deletes
		v.Unanswered = v.Unanswered || v.Call != nil && v.ExternalID == ""
		v.Call = p.Call
		unblock.PutVolumeWithout(tx, v)
	}

	return nil
}

// noteAttachmentCall is CallNote for a call that attaches a volume to a node, or detaches it.
func noteAttachmentCall(tx *mvcc.WriteTx, p *structs.CSICallNote) error {
	a := Attachment(tx, p.RequestNamespace(), p.VolumeID, p.NodeID)
	if a == nil || a.CreateIndex != p.RowIndex ||
		!a.Unsettled() {
		return structs.Conflictf("volume %q: its attachment to node %s has changed meanwhile",
			p.VolumeID, NodeName(tx, p.NodeID))
	}

	// Secrets under a root key that is gone could not be opened for the call.
	err := trust.CheckSealed(tx, p.SealedSecrets)
	if err != nil {
		return err
	}

	a = a.Copy()
	a.Call = p.Call
	if p.Secrets != nil || p.SealedSecrets != nil {
		a.Secrets = p.Secrets
		a.SealedSecrets = p.SealedSecrets
	}

	schema.Attachments.Put(tx, a)
	return nil
}

// noteRelease stores the failure of a release in the claim, where users see it, or its end.
func noteRelease(tx *mvcc.WriteTx, p *structs.CSICallNote) {
	c := Claim(tx, p.RequestNamespace(), p.VolumeID, p.AllocID)
	if c == nil || c.CreateIndex != p.RowIndex {
		return
	}
	c = c.Copy()
	if p.Err == nil {
		c.ReleaseError = nil
	} else {
		c.ReleaseError = CountFailure(c.ReleaseError, p.Err)
	}
	StoreClaim(tx, c)
}

// DeletableAttachment returns the attachment that an operator wants to delete. It rejects this while a
// controller call for the attachment may still take effect. Only the row delays the next call for the volume,
// and a late detach would remove the volume from its next user.
func DeletableAttachment(tx mvcc.Reader, p *structs.CSIVolumeForceRequest) (*structs.CSIAttachment, error) {
	a := Attachment(tx, p.RequestNamespace(), p.VolumeID, p.NodeID)
	if a == nil || a.CreateIndex != p.Attachment ||
		a.State != structs.AttachmentDetaching {
		return nil, structs.Conflictf(
			"the attachment of volume %q to node %s has changed meanwhile; check it again: %s",
			p.VolumeID, NodeName(tx, p.NodeID),
			structs.CommandLine(p.RequestNamespace(), "volume status", p.VolumeID))
	}

	remedy := settleRemedy(tx, a.Call, settling{p.Settle, p.Now, "force again"})
	if remedy == "" {
		return a, nil
	}

	return nil, structs.Preconditionf(
		"volume %q: the controller on node %s has not answered the %s for node %s, and may still carry it out: %s",
		p.VolumeID, NodeName(tx, a.Call.NodeID), a.Call.Op,
		NodeName(tx, p.NodeID), remedy)
}

// settling is a request that may have to wait for a controller call.
type settling struct {
	settle time.Duration // how long a call may take effect after it was sent; 0: the request waits for none
	now    int64
	again  string // what to do after that
}

// settleRemedy returns how a request gets past a controller call that may still take effect, and "" if none
// may.
func settleRemedy(tx mvcc.Reader, call *structs.CSICall, s settling) string {
	// After that the call has no effect any more: see structs.CallSettles.
	if call == nil || s.settle == 0 {
		return ""
	}
	settled := time.Unix(0, clustertime.Corrected(clustertime.Of(tx), call.Time)).Add(s.settle)
	if s.now >= settled.UnixNano() {
		return ""
	}
	return fmt.Sprintf("repair or restart that controller so that it answers; "+
		"if it is gone, or stopped for good, %s after %s",
		s.again, settled.UTC().Format(time.RFC3339))
}

// checkAnswered rejects the deregistration of a volume while a controller call for it may still take
// effect. Only the row delays the next call: the call could delete the volume after it was registered
// again. A caller that forces the deregistration sends no Settle.
func checkAnswered(tx mvcc.Reader, v *structs.CSIVolume, p *structs.CSIVolumeDeregisterRequest) error {
	remedy := settleRemedy(tx, v.Call, settling{p.Settle, p.Now, "deregister it"})
	if remedy == "" {
		return nil
	}
	return structs.Preconditionf(
		"volume %q: the controller on node %s has given no final answer to the last call (%s), "+
			"which may still take effect: %s; -force does not wait for it",
		v.ID, NodeName(tx, v.Call.NodeID), v.Call.Op, remedy)
}

// DropAttachment deletes an attachment and all that follows from it.
func DropAttachment(tx *mvcc.WriteTx, a *structs.CSIAttachment, now int64) {
	schema.Attachments.Delete(tx, a)

	DropUnusedPlugin(tx, a.PluginID)

	// Each of the following may have waited for the detach: another driver for the ID of the plugin, an
	// expansion or a deletion that needs the volume on no node, an attach to another node, and claims.
	rebindDriver(tx, a.PluginID, now)
	retryExpansion(tx, a.Namespace, a.VolumeID)
	RetryReclaim(tx, a.Namespace, a.VolumeID, now)
	if a.Found {
		retryAttaches(tx, a)
	}

	grant(tx, a.Namespace, a.VolumeID, now)
	volume := structs.CSIClaimKey{
		Namespace: a.Namespace,
		VolumeID:  a.VolumeID,
	}

	unblockAfterRelease(tx, volume, a.PluginID, a.NodeID)
}
