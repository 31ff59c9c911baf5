package control

import (
	"context"

	"berth/fsm"
	"berth/internal/keyring"
	"berth/server/nodeconn"
	"berth/state"
	"berth/state/csi"
	"berth/state/volumesecrets"
	"berth/structs"
	"berth/structs/nodecalls"
	"berth/structs/validate/report"
)

// The calls that an attachment's row can need.
const (
	opAttach = "attach"
	opDetach = "detach"
)

// nextAttachment returns the call that an attachment's row needs, "" if none.
func nextAttachment(a *structs.CSIAttachment) string {
	switch a.State {
	case structs.AttachmentAttaching:
		return opAttach
	case structs.AttachmentDetaching:
		return opDetach
	}
	return ""
}

// attachmentWork needs the volume only to choose a controller near it: a detach works without.
func (c controllerLoop) attachmentWork(tx *state.ReadTx, a *structs.CSIAttachment) work {
	op := nextAttachment(a)
	volume := a.Namespace + "/" + a.VolumeID
	w := work{
		op:        op,
		volume:    volume,
		plugin:    a.PluginID,
		rank:      1,
		version:   a.ModifyIndex,
		lastError: a.LastError,
		call:      a.Call,
	}
	if op == opDetach {
		w.rank = 2 // the calls for the volume itself have rank 0
	}
	deletion := lateDelete(tx, a)
	if deletion != nil &&
		(a.Call == nil || deletion.Time > a.Call.Time) {
		w.call = deletion
	}
	note := structs.CSICallNote{
		VolumeID: a.VolumeID,
		NodeID:   a.NodeID,
		RowIndex: a.CreateIndex,
	}
	if v := freshSecrets(tx, a); v != nil {
		a = a.Copy()
		a.Secrets = v.Secrets
		a.SealedSecrets = v.SealedSecrets
		note.Secrets = v.Secrets
		note.SealedSecrets = v.SealedSecrets
	}
	w.candidates = func(tx *state.ReadTx) []string {
		v := csi.Volume(tx, a.Namespace, a.VolumeID)
		if v != nil && v.PluginID == a.PluginID {
			return nodeconn.VolumeControllers(tx, v)
		}
		return nodeconn.Controllers(tx, a.PluginID, nil, volume)
	}
	w.act = func(ctx context.Context, candidates []string, err error) error {
		var published structs.Secrets
		if err == nil {
			published, err = c.withCandidates(candidates).attachOrDetach(ctx, a, note)
		}
		if ctx.Err() != nil {
			return ctx.Err() // the row names the node; the next leader calls it
		}
		return c.attachmentOutcome(ctx, a, published, err)
	}
	return w
}

// freshSecrets returns the volume, with its present secrets, when the attach was denied with others, else
// nil (CSI spec, "Error Scheme", UNAUTHENTICATED). It compares them as they are stored. Secrets that were
// encrypted again count as others, and the call is then repeated with the same ones.
func freshSecrets(tx *state.ReadTx, a *structs.CSIAttachment) *structs.CSIVolume {
	v := csi.Volume(tx, a.Namespace, a.VolumeID)
	if v == nil ||
		a.State != structs.AttachmentAttaching ||
		a.LastError == nil ||
		a.LastError.Kind != structs.KindDenied ||
		len(v.Secrets) == 0 && v.SealedSecrets == nil ||
		keyring.SameSecrets(v.Secrets, a.Secrets, v.SealedSecrets, a.SealedSecrets) {
		return nil
	}
	return v
}

// attachOrDetach makes the call that the row needs, which the note records. It returns the publish_context of
// an attach.
func (c controllerLoop) attachOrDetach(
	ctx context.Context,
	a *structs.CSIAttachment,
	note structs.CSICallNote,
) (structs.Secrets, error) {
	a, err := volumesecrets.Pin(c.Store.Read(), c.Keys, a, &note)
	if err != nil {
		return nil, err
	}

	c = c.recordingCalls(a.Namespace, note, nextAttachment(a))
	a, err = keyring.OpenAttachment(c.Keys, a)
	if err != nil {
		return nil, err
	}

	if nextAttachment(a) == opDetach {
		return nil, c.detach(ctx, a)
	}

	resp, err := callController(ctx, c, nodecalls.ClientCSIControllerAttach, attachRequest(a))
	if structs.IsKind(err, structs.KindNotFound) {
		return nil, structs.NotFoundf("%w%s", err, mismatch(c.Store.Read(), a))
	}

	if err != nil {
		return nil, c.explainRejection(ctx, a, err)
	}

	if err := report.Attached(resp); err != nil {
		return nil, structs.Internalf("plugin %s: ControllerPublishVolume: %w",
			a.PluginID, err)
	}

	return resp.PublishContext, nil
}

// attachRequest depends only on the row, so it is the same for each repetition.
func attachRequest(a *structs.CSIAttachment) *nodecalls.ClientCSIAttachRequest {
	return &nodecalls.ClientCSIAttachRequest{
		PluginID:       a.PluginID,
		ExternalID:     a.ExternalVolumeID,
		ExternalNodeID: a.ExternalNodeID,
		AccessMode:     a.AccessMode,
		AttachmentMode: a.AttachmentMode,
		MountOptions:   a.MountOptions,
		ReadOnly:       a.ReadOnly,
		VolumeContext:  a.VolumeContext,
		Secrets:        a.Secrets,
	}
}

// detachRequest carries the secrets of the attach (CSI spec, ControllerUnpublishVolumeRequest.secrets).
func detachRequest(a *structs.CSIAttachment) *nodecalls.ClientCSIDetachRequest {
	return &nodecalls.ClientCSIDetachRequest{
		PluginID:       a.PluginID,
		ExternalID:     a.ExternalVolumeID,
		ExternalNodeID: a.ExternalNodeID,
		Secrets:        a.Secrets,
	}
}

// attachmentOutcome records the outcome of a call. A failure changes only the LastError of the row.
func (c controllerLoop) attachmentOutcome(
	ctx context.Context,
	a *structs.CSIAttachment,
	published structs.Secrets,
	err error,
) error {
	outcome := &structs.CSIAttachmentOutcome{
		VolumeID:       a.VolumeID,
		NodeID:         a.NodeID,
		Op:             nextAttachment(a),
		RowIndex:       a.CreateIndex,
		PublishContext: published,
		WriteOptions:   c.stamp(a.Namespace),
	}

	if err != nil {
		outcome.Err = c.operationError(err, a.LastError, rpcs[outcome.Op])
		outcome.KeepCall = keepsCall(a.Call, err)
	}

	return propose(ctx, c.Deps, fsm.AttachmentOutcome, outcome)
}
