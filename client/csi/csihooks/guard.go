package csihooks

import (
	"context"

	"berth/client/guard/order"
	"berth/structs"
)

// Guard ends allocations with the lease of the node, also without the agent. Package guard has it.
type Guard interface {
	// Order returns once the guard will end the allocation and unmount the volumes. While the node has no lease
	// the error is unavailable. If it cannot guard the tasks of the group, the error is a precondition.
	Order(allocID string, group *structs.TaskGroup, volumes []order.Volume) error
}

// needsGuard reports whether the servers release a claim at the end of the lease, or are to.
func needsGuard(r *structs.CSIClaimGetResponse) bool {
	return r.Claim.Guarded || r.LossPolicy == structs.LossLease
}

// guard lets the guard end the allocation and unmount the volume at the end of the lease, and then tells the
// servers that it does. It precedes each mount. If the servers have another policy by then, they leave the
// claim as it is, and do not release it.
func (h *volumesHook) guard(ctx context.Context, w *requiredVolume, claim *structs.CSIClaim) error {
	if h.Guard == nil {
		return structs.Preconditionf("this node has no guard")
	}

	err := h.orderGuard(ctx, w)
	if err != nil || claim.Guarded {
		return err
	}

	nodeID, secret := h.Node()
	own := claim.Copy()
	own.Guarded = true
	req := &structs.CSIVolumeClaimRequest{
		NodeID:   nodeID,
		SecretID: secret,
		Claims:   []*structs.CSIClaim{own},
	}
	req.Namespace = w.Namespace
	call := func() (*structs.CSIVolumeClaimResponse, error) {
		return callOnce(ctx, h, structs.CSIVolumeClaim, req)
	}
	_, err = callUntilFinal(ctx, h, "claiming the volume with a guard", call)
	return err
}

// orderGuard orders the guard, and waits until the node has a lease.
func (h *volumesHook) orderGuard(ctx context.Context, w *requiredVolume) error {
	target, stage := h.Volumes.MountPoints(w.VolumeKey, h.alloc.ID)
	volume := order.Volume{
		Namespace: w.Namespace,
		ID:        w.ID,
		Target:    target,
		Stage:     stage,
	}
	pause := h.newBackoff()
	for {
		err := h.Guard.Order(h.alloc.ID, h.group, []order.Volume{volume})
		if !structs.IsKind(err, structs.KindUnavailable) {
			return err
		}
		h.setProgress("volume %s: %v", w.VolumeKey, err)
		if !pause.Wait(ctx) {
			return err
		}
	}
}
