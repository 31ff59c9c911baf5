package csihooks

import (
	"context"
	"strings"

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

// checkServed rejects a mounted volume whose file system is served by a process of its plugin (FUSE). The
// guard does not end that process, so it might write after the end of the lease what the tasks have
// written before.
func (h *volumesHook) checkServed(w *requiredVolume, claim *structs.CSIClaimGetResponse) error {
	if !needsGuard(claim) {
		return nil
	}

	target, stage := h.Volumes.MountPoints(w.VolumeKey, h.alloc.ID)
	for _, path := range []string{target, stage} {
		kind, err := h.FileSystem(path)
		if err != nil {
			return err
		}
		if strings.HasPrefix(kind, "fuse") {
			return structs.Preconditionf(`volume %s with on_node_loss = "lease": a process of plugin %s serves its `+
				`file system (%s), and the guard does not end it; use "hold" or "fence"`,
				w.VolumeKey, claim.Claim.PluginID, kind)
		}
	}
	return nil
}
