package csi

import (
	"cmp"

	"berth/internal/mvcc"
	"berth/state/lease"
	"berth/state/schema"
	"berth/state/unblock"
	"berth/structs"
)

// VolumeClaim puts each claim into the queue of its volume and grants the claims that can be granted now. If
// one claim can never be granted, all are rejected.
func VolumeClaim(tx *mvcc.WriteTx, p *structs.CSIVolumeClaimRequest) error {
	if p.NodeID != "" {
		node, err := lease.FindCaller(tx, p)
		if err != nil {
			return err
		}
		markNode(tx, node, p.Agent.Mark())
	}

	// longer has the volumes whose queues have become longer. The volumes are independent of each other, so
	// their order does not matter.
	longer := map[VolumeKey]bool{}

	// The numbers order the claims of one entry in their queues: see InQueueOrder.
	first := tx.NextSeq(len(p.Claims))
	for n, requested := range p.Claims {
		if requested == nil {
			return structs.Invalidf("claim %d of the request is empty", n)
		}

		c := *requested
		c.Namespace = cmp.Or(c.Namespace, p.RequestNamespace())
		v, err := completeClaim(tx, &c, p.NodeID)
		if err != nil {
			return err
		}

		// The claim exists. The node has sent it again, because it got no answer or knows the policy by now.
		if v == nil {
			guardClaim(tx, &c)
			continue
		}

		queueUp(&c, first+n, p.Now)
		if grantAtOnce(tx, v, &c, p.Now) {
			continue
		}

		StoreClaim(tx, &c)
		longer[VolumeKey{Namespace: c.Namespace, VolumeID: c.VolumeID}] = true
	}

	// A queue is walked once for all claims of the request.
	for k := range longer {
		grant(tx, k.Namespace, k.VolumeID, p.Now)
	}

	return nil
}

// markNode notes the mark of the agent that claims: a copy of its disk from before the first claim does not
// have it.
func markNode(tx *mvcc.WriteTx, node *structs.Node, mark string) {
	if mark == "" || node.Mark == mark {
		return
	}
	marked := *node
	marked.Mark = mark
	schema.Nodes.Put(tx, &marked)
}

// queueUp makes a requested claim one that waits. seq is its number among the claims of the entry.
func queueUp(c *structs.CSIClaim, seq int, now int64) {
	// These fields are the servers' own, whatever the request has in them.
	c.State = structs.ClaimWaiting
	c.Reason = ""
	c.Seq = seq
	c.CreateTime = now
	c.GrantIndex = 0
	c.GrantTime = 0
	c.EndTime = 0
	c.ExpandBytes = 0
	c.ExpandError = nil
}

// grantAtOnce grants a claim if no claim is ahead of it and nothing blocks it, and reports whether it did. It
// has the effect of grant, without a row that waits.
func grantAtOnce(tx *mvcc.WriteTx, v *structs.CSIVolume, c *structs.CSIClaim, now int64) bool {
	k := c.Class()

	// A claim that waits is ahead, whatever its class is: grant decides which of the two conflict.
	for _, n := range ClassCounts(tx, c.Namespace, c.VolumeID) {
		if n.Waiting > 0 || k.Conflicts(n.Class()) {
			return false
		}
	}

	p := Plugin(tx, v.PluginID)
	if excludedByNode(tx, v, c) || blockOf(v, p) != "" || expandsOffline(tx, v, p) != "" {
		return false
	}

	// A volume without attachments, of a plugin that makes none, is attached nowhere else.
	attaches := p.SupportsAttachDetach ||
		schema.Attachments.Has(tx, c.Namespace, c.VolumeID)
	if attaches &&
		(ClassBlock(tx, v, k) != "" ||
			NodeBlock(tx, v, c) != "") {
		return false
	}

	c.State = structs.ClaimGranted
	c.GrantIndex = tx.Index
	c.GrantTime = now
	c.ExpandBytes = v.NodeExpandBytes
	StoreClaim(tx, c)
	if attaches {
		attachFor(tx, c, now)
	}

	return true
}

// completeClaim checks a claim against its volume and allocation and fills in the derived fields. It returns
// the volume, or nil for a claim that exists already.
func completeClaim(tx mvcc.Reader, c *structs.CSIClaim, node string) (*structs.CSIVolume, error) {
	v, err := findVolume(tx, c.Namespace, c.VolumeID)
	if err != nil {
		return nil, err
	}

	a := schema.Allocs.Get(tx, c.AllocID)
	switch {
	case a == nil:
		return nil, structs.NotFoundf("no allocation %q", c.AllocID)
	case a.Namespace != c.Namespace:
		return nil, structs.Deniedf(
			"allocation %q is in namespace %q, the volume in %q", a.ID, a.Namespace, c.Namespace)
	case node != "" && a.NodeID != node,
		c.NodeID != "" && a.NodeID != c.NodeID:
		return nil, structs.Deniedf("allocation %q is on another node", a.ID)
	}

	deriveFields(c, v, a)
	old := Claim(tx, c.Namespace, c.VolumeID, c.AllocID)
	if old != nil {
		if old.Class() != c.Class() {
			return nil, structs.Conflictf(
				"allocation %q claims volume %q already as %s", c.AllocID, c.VolumeID, old.Class())
		}

		return nil, nil
	}

	// The repetition of a claim is no error for such an allocation. A new claim would keep the volume from
	// others.
	if a.Terminal() {
		return nil, structs.Preconditionf("allocation %q has ended or is being stopped", a.ID)
	}

	c.Guarded = c.Guarded && c.Unguarded == "" && LossPolicy(tx, v) == structs.LossLease
	return v, checkClaimable(tx, v, c)
}

// deriveFields fills in the fields of a claim that its volume and its allocation determine. The claim shares
// its texts with their rows, so that many claims do not hold a copy each.
func deriveFields(c *structs.CSIClaim, v *structs.CSIVolume, a *structs.Allocation) {
	c.Namespace = v.Namespace
	c.VolumeID = v.ID
	c.AllocID = a.ID
	c.NodeID = a.NodeID
	c.PluginID = v.PluginID
	c.JobID = a.JobID
	c.TaskGroup = a.TaskGroup
}

// guardClaim notes that the node of an existing claim guards it from now on, or cannot: it knows that once it
// knows the policy of the volume. If the policy is another one by then, the node does not begin to guard it.
func guardClaim(tx *mvcc.WriteTx, c *structs.CSIClaim) {
	v := Volume(tx, c.Namespace, c.VolumeID)
	old := Claim(tx, c.Namespace, c.VolumeID, c.AllocID)
	guarded := old.Copy()

	// The first reason stays: a node that could not guard the claim once has begun without a guard.
	guarded.Unguarded = cmp.Or(old.Unguarded, c.Unguarded)
	guarded.Guarded = guarded.Unguarded == "" &&
		(old.Guarded || c.Guarded && LossPolicy(tx, v) == structs.LossLease)
	if *guarded != *old {
		StoreClaim(tx, guarded)
	}
}

// FreeClaim deletes a claim and all that follows from it. The caller unblocks the evaluations that wait for
// it: see KeysToUnblock.
func FreeClaim(tx *mvcc.WriteTx, c *structs.CSIClaim, now int64) {
	DropClaim(tx, c)

	// The detach comes first: grant takes the next claim only if the volume need not be detached before. The
	// end of a waiting claim may free those behind it, too.
	if c.State == structs.ClaimGranted {
		detachUnused(tx, c, now)
		retryExpansion(tx, c.Namespace, c.VolumeID)
	}
	RetryReclaim(tx, c.Namespace, c.VolumeID, now)
	grant(tx, c.Namespace, c.VolumeID, now)
}

// unblockAfterRelease unblocks the evaluations that wait for a volume, or for a node to have one volume less
// of its plugin.
func unblockAfterRelease(tx *mvcc.WriteTx, k structs.CSIClaimKey, plugin, node string) {
	for _, key := range KeysToUnblock(tx, k, plugin, node) {
		unblock.Key(tx, key)
	}
}

// KeysToUnblock returns the unblock keys of evaluations that can continue when a volume is released on a
// node. A deleted volume has no row that records this, so all evaluations that wait for capacity are
// evaluated again.
func KeysToUnblock(tx mvcc.Reader, k structs.CSIClaimKey, plugin, node string) []string {
	key := structs.WakeVolume(k.Namespace, k.VolumeID)
	v := Volume(tx, k.Namespace, k.VolumeID)
	if v == nil {
		key = structs.WakeCapacity
	}

	keys := []string{key}
	if v != nil && v.Host != nil {
		keys = append(keys, structs.WakeHostVolume(v.Namespace, v.Host.Name))
	}

	// An evaluation waits for each volume of a full node by itself, as long as these are few.
	half := Instance(tx, plugin, structs.CSIKindNode, node)
	if half.NodeReport().MaxVolumes > structs.ManyVolumes {
		keys = append(keys, structs.WakePlugin(plugin))
	}

	return keys
}

// EndClaims records in the claims of an allocation that it has ended, so that its node releases them.
func EndClaims(tx *mvcc.WriteTx, alloc string, now int64) {
	for c := range ClaimsByAlloc(tx, alloc) {
		if c.State == structs.ClaimGranted && c.EndTime == 0 {
			c = c.Copy()

			// 0 means that the allocation has not ended.
			c.EndTime = max(now, 1)
			StoreClaim(tx, c)
		}
	}
}

// LeaveQueues removes an allocation that is to stop from every claim queue. It keeps its granted claims until
// its node has released the volumes.
func LeaveQueues(tx *mvcc.WriteTx, alloc string, now int64) {
	for c := range ClaimsByAlloc(tx, alloc) {
		if c.State == structs.ClaimWaiting {
			// The volume may be free for those behind it, on other nodes, too.
			FreeClaim(tx, c, now)
			unblockAfterRelease(tx, c.Key(), c.PluginID, c.NodeID)
		}
	}
}
