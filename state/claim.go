package state

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	"berth/structs"
)

// Claim returns the claim, nil if there is none.
func Claim(tx Reader, ns, volume, alloc string) *structs.CSIClaim {
	return claims.Get(tx, ns, volume, alloc)
}

// ClaimsByVolume returns a volume's claims in the order in which they were made.
func ClaimsByVolume(tx Reader, ns, volume string) []*structs.CSIClaim {
	out := slices.Collect(claims.Scan(tx, ns, volume))
	slices.SortFunc(out, inQueueOrder)
	return out
}

func inQueueOrder(a, b *structs.CSIClaim) int {
	return cmp.Or(
		cmp.Compare(a.CreateIndex, b.CreateIndex),
		cmp.Compare(a.Seq, b.Seq),
	)
}

// ClaimsByNode yields the claims for allocations on a node.
func ClaimsByNode(tx Reader, node string) iter.Seq[*structs.CSIClaim] {
	return claimsByNode.Scan(tx, node)
}

// HasGrantedClaims reports whether allocations of a node have volumes that were not released.
func HasGrantedClaims(tx Reader, node string) bool {
	for c := range ClaimsByNode(tx, node) {
		if c.State == structs.ClaimGranted {
			return true
		}
	}
	return false
}

// ClaimsByAlloc yields an allocation's claims. All of them are on its node.
func ClaimsByAlloc(tx Reader, alloc string) iter.Seq[*structs.CSIClaim] {
	a := allocs.Get(tx, alloc)
	if a == nil {
		return func(func(*structs.CSIClaim) bool) {}
	}
	return claimsByNode.Scan(tx, a.NodeID, alloc)
}

// EndedClaimsOfNode yields the claims of a node whose allocations have ended and whose volume the node has
// not released.
func EndedClaimsOfNode(tx Reader, node string) iter.Seq[*structs.CSIClaim] {
	return endedClaims.Scan(tx, node)
}

// NodesWithEndedClaims yields the nodes with claims that EndedClaimsOfNode yields. It does not read all of
// these claims. A blocking query cannot wait for this result.
func NodesWithEndedClaims(tx Reader) iter.Seq[string] {
	return func(yield func(string) bool) {
		c := endedClaims.First(tx)
		for c != nil && yield(c.NodeID) {
			c = endedClaims.After(tx, c.NodeID)
		}
	}
}

// VolumeClaim puts each claim into the queue of its volume and grants the claims that can be granted now. If
// one claim can never be granted, all are rejected.
func VolumeClaim(tx *WriteTx, p *structs.CSIVolumeClaimRequest) error {
	if p.NodeID != "" {
		if _, err := findCaller(tx, p); err != nil {
			return err
		}
	}

	// longer has the volumes whose queues have become longer. The volumes are independent of each other, so
	// their order does not matter.
	longer := map[volumeKey]bool{}
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

		if v == nil {
			guardClaim(tx, &c)
			continue
		}

		c.State = structs.ClaimWaiting
		c.Reason = ""
		c.Seq = first + n
		c.CreateTime = p.Now
		c.GrantIndex = 0
		c.GrantTime = 0
		c.EndTime = 0
		c.ExpandBytes = 0
		c.ExpandError = nil
		if grantAtOnce(tx, v, &c, p.Now) {
			continue
		}

		storeClaim(tx, &c)
		longer[volumeKey{c.Namespace, c.VolumeID}] = true
	}

	for k := range longer {
		grant(tx, k.Namespace, k.VolumeID, p.Now)
	}

	return nil
}

// grantAtOnce grants a claim if no claim is ahead of it and nothing blocks it, and reports whether it did. It
// has the effect of grant, without a row that waits.
func grantAtOnce(tx *WriteTx, v *structs.CSIVolume, c *structs.CSIClaim, now int64) bool {
	k := c.Class()
	for _, n := range classCounts(tx, c.Namespace, c.VolumeID) {
		if n.Waiting > 0 || k.Conflicts(n.Class()) {
			return false
		}
	}

	p := Plugin(tx, v.PluginID)
	if blockOf(v, p) != "" || expandsOffline(tx, v, p) != "" {
		return false
	}

	attaches := p.SupportsAttachDetach ||
		attachments.Has(tx, c.Namespace, c.VolumeID)
	if attaches &&
		(classBlock(tx, v, k) != "" ||
			nodeBlock(tx, v, c) != "") {
		return false
	}

	c.State = structs.ClaimGranted
	c.GrantIndex = tx.Index
	c.GrantTime = now
	c.ExpandBytes = v.NodeExpandBytes
	storeClaim(tx, c)
	if attaches {
		attachFor(tx, c, now)
	}

	return true
}

// completeClaim checks a claim against its volume and allocation and fills in the derived fields. It returns
// the volume, or nil for a claim that exists already.
func completeClaim(tx Reader, c *structs.CSIClaim, node string) (*structs.CSIVolume, error) {
	v, err := findVolume(tx, c.Namespace, c.VolumeID)
	if err != nil {
		return nil, err
	}

	a := allocs.Get(tx, c.AllocID)
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

	// The claim shares its texts with the rows, so that many claims do not hold a copy each.
	c.Namespace = v.Namespace
	c.VolumeID = v.ID
	c.AllocID = a.ID
	c.NodeID = a.NodeID
	c.PluginID = v.PluginID
	c.JobID = a.JobID
	c.TaskGroup = a.TaskGroup
	old := Claim(tx, c.Namespace, c.VolumeID, c.AllocID)
	if old != nil {
		if old.Class() != c.Class() {
			return nil, structs.Conflictf(
				"allocation %q claims volume %q already as %s", c.AllocID, c.VolumeID, old.Class())
		}
		return nil, nil
	}

	if a.Terminal() {
		return nil, structs.Preconditionf("allocation %q has ended or is being stopped", a.ID)
	}

	c.Guarded = c.Guarded && c.Unguarded == "" && LossPolicy(tx, v) == structs.LossLease
	return v, claimable(v, c)
}

// guardClaim notes that the node of an existing claim guards it from now on, or cannot: it knows that once it
// knows the policy of the volume. If the policy is another one by then, the node does not begin to guard it.
func guardClaim(tx *WriteTx, c *structs.CSIClaim) {
	v := Volume(tx, c.Namespace, c.VolumeID)
	old := Claim(tx, c.Namespace, c.VolumeID, c.AllocID)
	guarded := old.Copy()
	guarded.Unguarded = cmp.Or(old.Unguarded, c.Unguarded)
	guarded.Guarded = guarded.Unguarded == "" &&
		(old.Guarded || c.Guarded && LossPolicy(tx, v) == structs.LossLease)
	if *guarded != *old {
		storeClaim(tx, guarded)
	}
}

// claimable rejects a claim that the volume can never grant, with or without other claims.
func claimable(v *structs.CSIVolume, c *structs.CSIClaim) error {
	class := c.Class()
	switch {
	case !c.AccessMode.Valid() ||
		!c.AttachmentMode.Valid() ||
		(c.Mode != structs.ClaimRead && c.Mode != structs.ClaimWrite):
		return structs.Invalidf(
			"a claim of volume %q needs a mode, an access mode and an attachment mode, not %s", v.ID, class)

	case c.Mode == structs.ClaimWrite && c.AccessMode.ReaderOnly():
		return structs.Invalidf("volume %q: access mode %s is read-only", v.ID, c.AccessMode)
	case !v.Capable(class):
		return structs.Preconditionf(
			"volume %q has no capability for %s with %s", v.ID, c.AccessMode, c.AttachmentMode)
	case v.State == structs.VolumeDeleting:
		return structs.Preconditionf("volume %q is being deleted", v.ID)
	case v.State == structs.VolumeFailed:
		return structs.Preconditionf("volume %q could not be created: %s",
			v.ID, errorText(v.LastError))
	}
	return nil
}

func errorText(e *structs.OperationError) string {
	if e == nil {
		return "the plugin gave no reason"
	}
	return e.Message
}

// VolumeUnpublish deletes claims whose nodes have released the volume, or whose release an operator decided.
// Attachments without users are to be detached, and the next claims in the queue are granted. A missing claim
// counts as released.
func VolumeUnpublish(tx *WriteTx, p *structs.CSIVolumeUnpublishRequest) error {
	if p.NodeID != "" && p.SecretID != "" {
		if _, err := findCaller(tx, p); err != nil {
			return err
		}
	}

	for _, k := range p.TurnedReadOnly {
		noteReadOnly(tx, p, k)
	}

	var keys []string // to unblock, each once
	known := map[string]bool{}
	for _, k := range p.Claims {
		c := Claim(tx, cmp.Or(k.Namespace, p.RequestNamespace()), k.VolumeID, k.AllocID)
		if c == nil {
			continue
		}

		if p.NodeID != "" && c.NodeID != p.NodeID {
			return structs.Deniedf("the claim of volume %q for allocation %q is another node's", k.VolumeID, k.AllocID)
		}

		if p.Operator != "" {
			if err := endHolder(tx, c, p); err != nil {
				return err
			}
			markForced(tx, c)
		}

		freeClaim(tx, c, p.Now)
		for _, key := range keysToUnblock(tx, c.Key(), c.PluginID, c.NodeID) {
			if !known[key] {
				known[key] = true
				keys = append(keys, key)
			}
		}
	}

	for _, key := range keys {
		unblock(tx, key)
	}

	return nil
}

// noteReadOnly records in the volume that its file system turned read-only under a claim of the node.
func noteReadOnly(tx *WriteTx, p *structs.CSIVolumeUnpublishRequest, k structs.CSIClaimKey) {
	ns := cmp.Or(k.Namespace, p.RequestNamespace())
	c := Claim(tx, ns, k.VolumeID, k.AllocID)
	v := Volume(tx, ns, k.VolumeID)
	if c == nil || v == nil || c.NodeID != p.NodeID {
		return
	}
	v = v.Copy()
	v.TurnedReadOnly = &structs.CSITurnedReadOnly{
		NodeID:  c.NodeID,
		AllocID: c.AllocID,
		Time:    p.Now,
	}
	putWithoutUnblock(tx, v)
}

// endHolder ends the allocation whose claim is about to be released without its node. If the node returns, it
// must stop the allocation, and the allocation gets no other claim. A node that is up is rejected, because
// the allocation may write at this moment.
func endHolder(tx *WriteTx, c *structs.CSIClaim, p *structs.CSIVolumeUnpublishRequest) error {
	old := Alloc(tx, c.AllocID)
	n := Node(tx, c.NodeID)
	switch {
	case old == nil || old.ClientTerminal():
		return nil
	case n != nil && n.Status != structs.NodeDown:
		return structs.Preconditionf("allocation %s (job %s) may still use volume %q on node %s, which is %s; "+
			"stop it first: berth alloc stop %s",
			old.ID, old.JobID, c.VolumeID,
			nodeName(tx, c.NodeID), n.Status, structs.ShortID(old.ID))
	}

	a := old.Copy()
	if !a.ServerTerminal() {
		a.DesiredStatus = structs.AllocDesiredStop
		a.DesiredDescription = fmt.Sprintf("volume %s was taken from it: %s",
			c.VolumeID, p.Operator)
		a.AllocModifyIndex = tx.Index
	}

	a.ClientStatus = structs.AllocLost
	a.ClientDescription = NodeIsDown
	a.ModifyTime = p.Now
	putAlloc(tx, old, a)
	if !old.Terminal() {
		evaluateAfter(tx, a, p.Now)
	}

	return nil
}

// freeClaim deletes a claim and all that follows from it. The caller unblocks the evaluations that wait for
// it: see keysToUnblock.
func freeClaim(tx *WriteTx, c *structs.CSIClaim, now int64) {
	dropClaim(tx, c)
	if c.State == structs.ClaimGranted {
		detachUnused(tx, c, now)
		retryExpansion(tx, c.Namespace, c.VolumeID)
	}
	grant(tx, c.Namespace, c.VolumeID, now)
}

// unblockAfterRelease unblocks the evaluations that wait for a volume, or for a node to have one volume less
// of its plugin.
func unblockAfterRelease(tx *WriteTx, k structs.CSIClaimKey, plugin, node string) {
	for _, key := range keysToUnblock(tx, k, plugin, node) {
		unblock(tx, key)
	}
}

// keysToUnblock returns the unblock keys of evaluations that can continue when a volume is released on a
// node. A deleted volume has no row that records this, so all evaluations that wait for capacity are
// evaluated again.
func keysToUnblock(tx Reader, k structs.CSIClaimKey, plugin, node string) []string {
	key := structs.WakeVolume(k.Namespace, k.VolumeID)
	if Volume(tx, k.Namespace, k.VolumeID) == nil {
		key = structs.WakeCapacity
	}
	keys := []string{key}
	half := Instance(tx, plugin, structs.CSIKindNode, node)
	if half.NodeReport().MaxVolumes > structs.ManyVolumes {
		keys = append(keys, structs.WakePlugin(plugin))
	}
	return keys
}

// endClaims records in the claims of an allocation that it has ended, so that its node releases them.
func endClaims(tx *WriteTx, alloc string, now int64) {
	for c := range ClaimsByAlloc(tx, alloc) {
		if c.State == structs.ClaimGranted && c.EndTime == 0 {
			c = c.Copy()
			c.EndTime = max(now, 1)
			storeClaim(tx, c)
		}
	}
}

// leaveQueues removes an allocation that is to stop from every claim queue. It keeps its granted claims until
// its node has released the volumes.
func leaveQueues(tx *WriteTx, alloc string, now int64) {
	for c := range ClaimsByAlloc(tx, alloc) {
		if c.State == structs.ClaimWaiting {
			freeClaim(tx, c, now)
			unblockAfterRelease(tx, c.Key(), c.PluginID, c.NodeID)
		}
	}
}
