package csihooks

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"berth/client/guard/watch"
	"berth/structs"
)

// Guard ends allocations with the lease of the node, also without the agent. Package guard has it. The errors
// of its orders are unavailable while the node has no lease.
type Guard interface {
	// Order returns once the guard will end the allocation and unmount the volumes. If no guard can find the
	// tasks of the group, the error is a precondition, and watch.ErrNoGuard if no guard works here.
	Order(allocID string, group *structs.TaskGroup, volumes []watch.OrderedVolume) error
	// Has reports whether the allocation has an order with the volume.
	Has(allocID string, v watch.OrderedVolume) (bool, error)
	// Withdraw takes a volume out of the order of the allocation.
	Withdraw(allocID string, group *structs.TaskGroup, v watch.OrderedVolume) error
}

// needsGuard reports whether the servers release a claim at the end of the lease, or are to.
func needsGuard(r *structs.CSIClaimGetResponse) bool {
	return r.Claim.Guarded || r.LossPolicy == structs.LossLease && r.Claim.Unguarded == ""
}

// guard lets the guard end the allocation and unmount the volume at the end of the lease, and then tells the
// servers that it does, or that no guard works here. It precedes each mount. If the servers have another
// policy by then, they do not release the claim.
func (h *volumesHook) guard(ctx context.Context, w *requiredVolume, claim *structs.CSIClaim) error {
	if h.Guard == nil {
		return h.tellUnguarded(ctx, w, claim, watch.ErrNoGuard.Error())
	}

	volume := h.orderOf(w)
	err := h.orderUntilLeased(ctx, w, func() error {
		return h.Guard.Order(h.alloc.ID, h.group, []watch.OrderedVolume{volume})
	})
	if errors.Is(err, watch.ErrNoGuard) {
		return h.tellUnguarded(ctx, w, claim, err.Error())
	}
	// The servers may know of the guard already.
	if err != nil || claim.Guarded {
		return err
	}

	own := claim.Copy()
	own.Guarded = true
	_, err = h.claimAgain(ctx, "claiming the volume with a guard", own)
	return err
}

// claimAgain repeats a claim with what the node knows more about it.
func (h *volumesHook) claimAgain(
	ctx context.Context, doing string, own *structs.CSIClaim,
) (*structs.CSIClaim, error) {
	nodeID, secret := h.Node()
	req := &structs.CSIVolumeClaimRequest{
		NodeID:   nodeID,
		SecretID: secret,
		Claims:   []*structs.CSIClaim{own},
	}
	req.Namespace = own.Namespace

	call := func() (*structs.CSIVolumeClaimResponse, error) {
		return callOnce(ctx, h, structs.CSIVolumeClaim, req)
	}

	resp, err := callUntilFinal(ctx, h, doing, call)
	if err != nil {
		return nil, err
	}

	if len(resp.Claims) != 1 || resp.Claims[0] == nil {
		return nil, fmt.Errorf("%s: the servers answered with %d claims; expected 1", doing, len(resp.Claims))
	}
	return resp.Claims[0], nil
}

// tellUnguarded tells the servers that the node does not guard a claim, so that the volume holds. Without an
// error they have not released the claim before, and do not release it at the end of a lease.
func (h *volumesHook) tellUnguarded(
	ctx context.Context, w *requiredVolume, claim *structs.CSIClaim, reason string,
) error {
	own := claim.Copy()
	own.Guarded = false
	own.Unguarded = structs.Cut(reason, structs.MaxReason)
	now, err := h.claimAgain(ctx, "claiming the volume without a guard", own)
	if err != nil {
		return err
	}
	// The servers may have released the claim at the end of a lease before they had this, and granted it
	// again.
	if now.Guarded || now.GrantIndex != claim.GrantIndex {
		return structs.Conflictf("volume %s: the servers have released the claim meanwhile", w.VolumeKey)
	}

	claim.Guarded = false
	claim.Unguarded = own.Unguarded
	h.logger.Warn("the volume holds if this node is lost", "volume", w.VolumeKey.String(), "reason", reason)
	return nil
}

// orderOf names the mount points of a volume for the guard. Nothing need be mounted there.
func (h *volumesHook) orderOf(w *requiredVolume) watch.OrderedVolume {
	target, stage := h.Volumes.MountPoints(w.VolumeKey, h.alloc.ID)
	return watch.OrderedVolume{
		Namespace: w.Namespace,
		ID:        w.ID,
		Target:    target,
		Stage:     stage,
	}
}

// guardTries is the number of tries if no guard works on the node.
const guardTries = 3

// orderUntilLeased repeats a change of the order until the node has a lease.
func (h *volumesHook) orderUntilLeased(
	ctx context.Context, w *requiredVolume, change func() error,
) error {
	pause := h.newBackoff()
	failed := 0
	for {
		err := change()
		if errors.Is(err, watch.ErrNoGuard) {
			failed++
		}

		// A lease comes back with the servers, so only a missing guard has a bound of tries.
		if failed == guardTries || !structs.IsKind(err, structs.KindUnavailable) {
			return err
		}

		h.setProgress("volume %s: %v", w.VolumeKey, err)
		if !pause.Wait(ctx) {
			return err
		}
	}
}

// holdServed looks at a mounted volume, before the first task. If a process of its plugin serves its file
// system (FUSE), the volume holds: the guard does not end that process, which might write after the end of
// the lease what the tasks have written before. Nothing has to end with the lease then.
func (h *volumesHook) holdServed(
	ctx context.Context, w *requiredVolume, r *structs.CSIClaimGetResponse,
) error {
	// Under another policy than lease there is no order to withdraw.
	if h.Guard == nil || !needsGuard(r) && r.Claim.Unguarded == "" {
		return nil
	}

	kind, err := h.servedAs(w)
	if err != nil || kind == "" {
		return err
	}

	if needsGuard(r) {
		err = h.tellUnguarded(ctx, w, r.Claim, fmt.Sprintf(
			"a process of plugin %s serves its file system (%s), and the guard does not end it",
			r.Claim.PluginID, kind))
	}

	// The order goes after the answer of the servers. Until then they may release the claim at the end of the
	// lease, and the guard has to end the allocation by then.
	volume := h.orderOf(w)
	if err == nil {
		err = h.orderUntilLeased(ctx, w, func() error {
			return h.Guard.Withdraw(h.alloc.ID, h.group, volume)
		})
	}
	return err
}

// servedAs returns the type of the file system of a mounted volume if a process serves it, else "".
func (h *volumesHook) servedAs(w *requiredVolume) (string, error) {
	volume := h.orderOf(w)
	// Either of the mounts may be the one that a process serves.
	for _, path := range []string{volume.Target, volume.Stage} {
		kind, err := h.FileSystem(path)
		if err != nil || strings.HasPrefix(kind, "fuse") {
			return kind, err
		}
	}
	return "", nil
}

// isDecided reports whether holdServed has looked at a mounted volume: an earlier agent may have ended
// before.
func (h *volumesHook) isDecided(w *requiredVolume) (bool, error) {
	if h.Guard == nil {
		return true, nil
	}

	has, err := h.Guard.Has(h.alloc.ID, h.orderOf(w))
	// holdServed withdraws the order last, so a volume without one is decided.
	if err != nil || !has {
		return true, err
	}

	kind, err := h.servedAs(w)
	return kind == "", err
}
