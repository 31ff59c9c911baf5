package csi

import (
	"berth/internal/mvcc"
	"berth/state/lease"
	"berth/state/schema"
	"berth/state/unblock"
	"berth/structs"
	"berth/structs/nodecalls"
	"maps"
)

// An expansion has two steps (CSI spec, ControllerExpandVolume and NodeExpandVolume). The controller enlarges
// the volume. A node enlarges its content, if the plugin needs that. The volume's row has the second step
// until a node has done it (NodeExpandBytes). A claim that is granted meanwhile has it for its own node
// (ExpandBytes): each node with the volume does the step.

// beginExpansion records that a ready volume has to grow to its request. The caller stores v.
func beginExpansion(tx *mvcc.WriteTx, v *structs.CSIVolume) {
	v.ExpandPending = true

	// No controller takes the first step, so the leader has no call to make.
	if nodesExpand(tx, v.PluginID) {
		v.ExpandPending = false
		expandOnNodes(tx, v, v.RequestedCapacityMin)
	}
}

// retryExpansion makes the leader check a volume again that waited for its users to leave.
func retryExpansion(tx *mvcc.WriteTx, ns, volume string) {
	v := Volume(tx, ns, volume)
	if v != nil && v.Expands() &&
		ExpandBlocked(tx, v) == "" {
		unblock.PutVolumeWithout(tx, v.Copy())
	}
}

// expandOnNodes records that the content of the volume has to grow, on the nodes that have the volume or on
// the next node that gets it. The caller stores v.
func expandOnNodes(tx *mvcc.WriteTx, v *structs.CSIVolume, bytes int64) {
	v.NodeExpandBytes = bytes
	for _, c := range ClaimsByVolume(tx, v.Namespace, v.ID) {
		// The node of an ended allocation is about to release the volume.
		if c.State != structs.ClaimGranted || c.EndTime != 0 {
			continue
		}
		c = c.Copy()
		c.ExpandBytes = bytes
		c.ExpandError = nil
		StoreClaim(tx, c)
	}
}

// leftToStage reports whether a node is not called again while it has the volume (CSI spec, NodeExpandVolume
// errors): the volume is in use, or the request is wrong. The next stage makes the call.
func leftToStage(e *structs.OperationError) bool {
	return nodecalls.RepeatOf("NodeExpandVolume", e.Kind, e.Code) == nodecalls.GiveUp
}

// NodeExpanded records the outcome of a node's step of an expansion for one allocation. It ignores the
// outcome if the claim is gone, was created later, or now requests a larger size.
func NodeExpanded(tx *mvcc.WriteTx, p *structs.CSINodeExpandOutcome) error {
	if p.SecretID != "" {
		_, err := lease.FindCaller(tx, p)
		if err != nil {
			return err
		}
	}

	c := Claim(tx, p.RequestNamespace(), p.VolumeID, p.AllocID)
	switch {
	case c == nil,
		p.RowIndex != 0 && p.RowIndex != c.CreateIndex,
		c.ExpandBytes == 0,
		p.Bytes < c.ExpandBytes:
		return nil

	case c.NodeID != p.NodeID:
		return structs.Deniedf("the claim of volume %q for allocation %q is another node's",
			p.VolumeID, p.AllocID)
	}

	c = c.Copy()
	if p.Err != nil {
		noteExpandFailure(c, p.Err)
		StoreClaim(tx, c)
		return nil
	}

	c.ExpandBytes = 0
	c.ExpandError = nil
	StoreClaim(tx, c)

	// The claim is stored before: the volume keeps the step while any claim has it.
	expandedOnNode(tx, p)
	return nil
}

// noteExpandFailure records that a node could not do its step of an expansion.
func noteExpandFailure(c *structs.CSIClaim, e *structs.OperationError) {
	c.ExpandError = CountFailure(c.ExpandError, e)

	// Nothing repeats the call then. The error stays in the claim for users.
	if leftToStage(e) {
		c.ExpandBytes = 0
		c.ExpandError.RetryTime = 0
	}
}

// expandedOnNode stores the new size, and deletes the step from the volume after the last node has done it.
func expandedOnNode(tx *mvcc.WriteTx, p *structs.CSINodeExpandOutcome) {
	v := Volume(tx, p.RequestNamespace(), p.VolumeID)
	if v == nil || v.NodeExpandBytes == 0 {
		return
	}

	v = v.Copy()

	// A plugin need not know the capacity and answers 0 then, but it has met the request.
	v.Capacity = max(v.Capacity, p.Capacity, p.Bytes)
	v.ModifyTime = p.Now
	if !schema.GrowingClaims.Has(tx, v.Namespace, v.ID) {
		v.NodeExpandBytes = 0
	}

	unblock.PutVolumeWithout(tx, v)
}

// VolumeLabel sets and removes labels of a volume.
func VolumeLabel(tx *mvcc.WriteTx, p *structs.CSIVolumeLabelRequest) error {
	old, err := findVolume(tx, p.RequestNamespace(), p.ID)
	if err != nil {
		return err
	}

	v, err := WithLabels(old, p)
	if err != nil || maps.Equal(v.Labels, old.Labels) {
		return err
	}

	v.ModifyTime = p.Now
	unblock.PutVolumeWithout(tx, v)
	return nil
}

// WithLabels returns a copy of a volume with the labels that it has after a request.
func WithLabels(old *structs.CSIVolume, p *structs.CSIVolumeLabelRequest) (*structs.CSIVolume, error) {
	labels := map[string]string{}
	maps.Copy(labels, old.Labels)
	for _, key := range p.Unset {
		delete(labels, key)
	}
	maps.Copy(labels, p.Set)
	err := structs.CheckLabels(labels)
	if err != nil {
		return nil, err
	}

	v := old.Copy()
	v.Labels = nil // also if the last one is removed
	if len(labels) > 0 {
		v.Labels = labels
	}
	return v, nil
}

// VolumeRetry makes the failed operations of a volume, its attachments and its nodes due now.
func VolumeRetry(tx *mvcc.WriteTx, p *structs.CSIVolumeRetryRequest) error {
	v, err := findVolume(tx, p.RequestNamespace(), p.ID)
	if err != nil {
		return err
	}

	inProgress := v.Expands() || v.Modifies() ||
		v.State == structs.VolumeCreating || v.State == structs.VolumeDeleting
	if inProgress && v.LastError != nil {
		v = v.Copy()
		v.LastError = retryNow(v.LastError, p.Now)
		v.ModifyTime = p.Now
		unblock.PutVolumeWithout(tx, v)
	}

	for a := range AttachmentsByVolume(tx, v.Namespace, v.ID) {
		if a.LastError != nil {
			a = a.Copy()
			a.LastError = retryNow(a.LastError, p.Now)
			a.ModifyTime = p.Now
			schema.Attachments.Put(tx, a)
		}
	}

	retryReleases(tx, v, p.Now)
	for c := range schema.GrowingClaims.Scan(tx, v.Namespace, v.ID) {
		if c.ExpandError != nil {
			c = c.Copy()

			// A node that was left to the next stage has no size to grow to any more (leftToStage).
			c.ExpandBytes = max(c.ExpandBytes, v.NodeExpandBytes)
			c.ExpandError = retryNow(c.ExpandError, p.Now)
			StoreClaim(tx, c)
		}
	}

	return nil
}

// retryReleases makes the nodes release the volume for ended allocations at once, also with calls that a
// plugin has rejected for good.
func retryReleases(tx *mvcc.WriteTx, v *structs.CSIVolume, now int64) {
	for _, c := range ClaimsByVolume(tx, v.Namespace, v.ID) {
		if c.EndTime != 0 && c.ReleaseError != nil {
			c = c.Copy()
			c.ReleaseError = retryNow(c.ReleaseError, now)
			StoreClaim(tx, c)
		}
	}
}

// retryNow returns the error of an operation that is due at once.
func retryNow(e *structs.OperationError, now int64) *structs.OperationError {
	due := *e

	// 0 would mean that the next attempt does not depend on time.
	due.RetryTime = max(now, 1)
	return &due
}
