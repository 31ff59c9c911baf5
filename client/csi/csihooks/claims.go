package csihooks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"berth/client/csi/volumes"
	"berth/rpc"
	"berth/structs"
)

// claimWait bounds one blocking query for a claim. After a restore the servers' index may be lower than the
// one that the query waits for.
const claimWait = time.Minute

// claimVolumes records each claim, and then makes all claims in one request.
func (h *volumesHook) claimVolumes(ctx context.Context, required []*requiredVolume) error {
	nodeID, secret := h.Node()
	req := &structs.CSIVolumeClaimRequest{NodeID: nodeID, SecretID: secret}
	req.Namespace = structs.NamespaceOr(h.alloc.Namespace)
	if h.Mark != nil {
		err := h.Mark(ctx)
		if err != nil {
			return fmt.Errorf("drawing the mark of the claims: %w", err)
		}
	}

	// The record precedes the request, so that Down also releases a claim whose answer was lost.
	for _, w := range required {
		err := h.Volumes.Claim(w.VolumeKey, h.alloc.ID)
		if err != nil {
			return err
		}
		req.Claims = append(req.Claims, &structs.CSIClaim{
			Namespace:      w.Namespace,
			VolumeID:       w.ID,
			AllocID:        h.alloc.ID,
			NodeID:         nodeID,
			JobID:          h.alloc.JobID,
			TaskGroup:      h.alloc.TaskGroup,
			Mode:           claimMode(w.request),
			AccessMode:     w.request.AccessMode,
			AttachmentMode: w.request.AttachmentMode,
		})
	}

	call := func() (*structs.CSIVolumeClaimResponse, error) {
		return callOnce(ctx, h, structs.CSIVolumeClaim, req)
	}

	// awaitClaim reads each claim again.
	_, err := callUntilFinal(ctx, h, "claiming the volumes", call)
	return err
}

// claimMode returns the mode of the claim. A request that only reads claims to read.
func claimMode(r *structs.VolumeRequest) string {
	if r.ReadOnly || r.AccessMode.ReaderOnly() {
		return structs.ClaimRead
	}
	return structs.ClaimWrite
}

// awaitClaim waits until the claim is granted and the volume attached. It returns the time of its last
// request as well: the answer of a blocking query may be as old as the request, because the server may have
// been partitioned meanwhile.
func (h *volumesHook) awaitClaim(
	ctx context.Context, w *requiredVolume,
) (resp *structs.CSIClaimGetResponse, asked time.Time, err error) {
	req := h.claimRequest(w)
	req.MaxWait = claimWait
	guarded := false // the guard has its order, if it needs one
	var full int64   // of isNewlyFull
	pause := h.newBackoff()
	for {
		asked = h.Now()

		doing := fmt.Sprintf("volume %s: waiting for the claim", w.VolumeKey)
		call := func() (*structs.CSIClaimGetResponse, error) {
			resp, err := rpc.Call(ctx, h.Servers, structs.CSIClaimGet, req)
			if err != nil {
				req.MinIndex = 0 // it may belong to a state that the servers no longer have
			}
			return resp, err
		}

		resp, err = callUntilFinal(ctx, h, doing, call)
		switch {
		case err != nil:
			return nil, asked, err
		case resp.Claim == nil:
			return nil, asked, structs.NotFoundf("volume %s: the claim is gone", w.VolumeKey)
		// This precedes the case of a ready claim, because the order precedes each mount.
		case !guarded && needsGuard(resp):
			guarded = true
			err = h.guard(ctx, w, resp.Claim)
			if err != nil {
				return nil, asked, fmt.Errorf(`volume %s with on_node_loss = "lease": %w`, w.VolumeKey, err)
			}
			// The claim is read again: the servers know of the guard now.
			req.MinIndex = 0
			continue
		case resp.Ready && resp.Volume != nil:
			return resp, asked, nil
		}

		h.setProgress("volume %s: %s", w.VolumeKey, resp.Blocked)
		if isNewlyFull(resp.Attachment, full) {
			full = resp.Attachment.LastError.Time
			h.Volumes.RefreshLimit(resp.Attachment.PluginID)
		}
		// After a change the next query waits for another one by itself.
		if resp.Index > req.MinIndex {
			req.MinIndex = resp.Index
			pause.Reset()
			continue
		}

		// The query ended without a change, or the server does not block: do not repeat it at once.
		if !pause.Wait(ctx) {
			return nil, asked, structs.Timeoutf("volume %s: %s: %w",
				w.VolumeKey, resp.Blocked, ctx.Err())
		}
	}
}

// isNewlyFull reports whether an attach has failed because the node is full (CSI spec, errors of
// ControllerPublishVolume: RESOURCE_EXHAUSTED). The plugin may then have another limit than it had. seen is
// the time of the last such failure (UnixNano), 0 for none.
func isNewlyFull(a *structs.CSIAttachment, seen int64) bool {
	return a != nil && a.LastError != nil && a.LastError.Code == structs.CSICodeExhausted &&
		a.LastError.Time != seen
}

// claimRequest is the request of one claim. awaitClaim makes a blocking query of it.
func (h *volumesHook) claimRequest(w *requiredVolume) *structs.CSIClaimGetRequest {
	nodeID, secret := h.Node()
	req := &structs.CSIClaimGetRequest{
		VolumeID: w.ID,
		AllocID:  h.alloc.ID,
		NodeID:   nodeID,
		SecretID: secret,
	}

	req.Namespace = w.Namespace
	return req
}

// confirmClaim returns a function that verifies at the servers that the claim still has its grant, if their
// last answer is older than ConfirmAfter. The use then has the present secrets.
func (h *volumesHook) confirmClaim(
	w *requiredVolume, u *volumes.Use, asked time.Time,
) func(context.Context) error {
	return func(ctx context.Context) error {
		if h.Now().Sub(asked) < h.ConfirmAfter {
			return nil
		}

		// The answer may be as old as the request, so its age begins before the call.
		again := h.Now()
		resp, err := callOnce(ctx, h,
			structs.CSIClaimGet, h.claimRequest(w))
		switch {
		case err != nil:
			return fmt.Errorf("confirming the claim: %w", err)
		case resp.Claim == nil || resp.Claim.State != structs.ClaimGranted ||
			resp.Claim.GrantIndex != u.Grant:
			return structs.Conflictf("the claim was taken away before the volume was brought here")
		case !resp.Ready || resp.Volume == nil:
			return structs.Unavailablef("confirming the claim: %s", resp.Blocked)
		}

		u.Secrets = resp.Volume.Secrets
		asked = again
		return nil
	}
}

// releaseClaims tells the servers that nothing of the volumes is left here, and then forgets them.
func (h *volumesHook) releaseClaims(ctx context.Context, keys []volumes.VolumeKey) error {
	nodeID, secret := h.Node()
	req := &structs.CSIVolumeUnpublishRequest{NodeID: nodeID, SecretID: secret}
	req.Namespace = structs.NamespaceOr(h.alloc.Namespace)

	for _, k := range keys {
		key := structs.CSIClaimKey{
			Namespace: k.Namespace,
			VolumeID:  k.ID,
			AllocID:   h.alloc.ID,
		}

		req.Claims = append(req.Claims, key)
		turned, err := h.Volumes.TurnedReadOnly(k, h.alloc.ID)
		if err != nil {
			return err
		}
		if turned {
			req.TurnedReadOnly = append(req.TurnedReadOnly, key)
		}
	}

	_, err := callOnce(ctx, h, structs.CSIVolumeUnpublish, req)
	// Not-found: the servers no longer have the claims.
	if err != nil && !structs.IsKind(err, structs.KindNotFound) {
		return fmt.Errorf("releasing the claims: %w", err)
	}

	// The records go last: after a crash the release is repeated.
	var errs []error
	for _, k := range keys {
		errs = append(errs, h.Volumes.Forget(k, h.alloc.ID))
	}
	return errors.Join(errs...)
}
