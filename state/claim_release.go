package state

import (
	"cmp"
	"fmt"
	"slices"

	"berth/internal/mvcc"
	"berth/state/csi"
	"berth/state/lease"
	"berth/state/schema"
	"berth/state/unblock"
	"berth/structs"
)

// VolumeUnpublish deletes claims whose nodes have released the volume, or whose release an operator decided.
// Attachments without users are to be detached, and the next claims in the queue are granted. A missing claim
// counts as released.
func VolumeUnpublish(tx *WriteTx, p *structs.CSIVolumeUnpublishRequest) error {
	// Only a request of a node has its secret. A release by the servers (forceRelease) names the node without
	// one.
	if p.NodeID != "" && p.SecretID != "" {
		if _, err := lease.FindCaller(tx, p); err != nil {
			return err
		}
	}

	// This comes before the release: the claim proves that the node has the volume.
	for _, k := range p.TurnedReadOnly {
		noteReadOnly(tx, p, k)
	}

	var keys []string // to unblock, each once
	known := map[string]bool{}
	for _, k := range p.Claims {
		c := csi.Claim(tx, cmp.Or(k.Namespace, p.RequestNamespace()), k.VolumeID, k.AllocID)
		if c == nil {
			continue
		}

		err := releaseClaim(tx, c, p)
		if err != nil {
			return err
		}

		for _, key := range csi.KeysToUnblock(tx, c.Key(), c.PluginID, c.NodeID) {
			if !known[key] {
				known[key] = true
				keys = append(keys, key)
			}
		}
	}

	// An unblock costs the same after one release and after a thousand.
	for _, key := range keys {
		unblock.Key(tx, key)
	}

	return nil
}

// releaseClaim deletes a claim that its node has released, or that an operator releases without the node.
func releaseClaim(tx *WriteTx, c *structs.CSIClaim, p *structs.CSIVolumeUnpublishRequest) error {
	if p.NodeID != "" && c.NodeID != p.NodeID {
		return structs.Deniedf("the claim of volume %q for allocation %q is another node's",
			c.VolumeID, c.AllocID)
	}

	// The mark comes before the release, which grants the next claims: an attachment with the mark
	// excludes some of them (csi.NodeBlock).
	if p.Operator != "" {
		if err := endHolder(tx, c, p); err != nil {
			return err
		}

		csi.MarkForced(tx, c)
	}

	csi.FreeClaim(tx, c, p.Now)
	return nil
}

// noteReadOnly records in the volume that its file system turned read-only under a claim of the node.
func noteReadOnly(tx *WriteTx, p *structs.CSIVolumeUnpublishRequest, k structs.CSIClaimKey) {
	ns := cmp.Or(k.Namespace, p.RequestNamespace())
	c := csi.Claim(tx, ns, k.VolumeID, k.AllocID)
	v := csi.Volume(tx, ns, k.VolumeID)
	if c == nil || v == nil || c.NodeID != p.NodeID {
		return
	}
	v = v.Copy()
	v.TurnedReadOnly = &structs.CSITurnedReadOnly{
		NodeID:  c.NodeID,
		AllocID: c.AllocID,
		Time:    p.Now,
	}
	unblock.PutVolumeWithout(tx, v)
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
			csi.NodeName(tx, c.NodeID), n.Status, structs.ShortID(old.ID))
	}

	a := old.Copy()
	if !a.ServerTerminal() {
		a.DesiredStatus = structs.AllocDesiredStop
		a.DesiredDescription = fmt.Sprintf("volume %s was taken from it: %s",
			c.VolumeID, p.Operator)
		a.AllocModifyIndex = tx.Index
	}

	// It ends in this entry, because the volume may be granted to its successor by the same entry.
	a.ClientStatus = structs.AllocLost
	a.ClientDescription = schema.NodeIsDown
	a.ModifyTime = p.Now
	putAlloc(tx, old, a)
	if !old.Terminal() {
		evaluateAfter(tx, a, p.Now)
	}

	return nil
}

// VolumeForce releases a node's claims of a volume, or deletes its attachment, and records the user and the
// reason. It rejects an attachment that is in use again or was created later.
func VolumeForce(tx *WriteTx, p *structs.CSIVolumeForceRequest) error {
	err := CheckShown(tx, p.NodeID, p.Claims, p.Shown)
	if err != nil {
		return err
	}

	err = forceRelease(tx, p)
	if err != nil {
		return err
	}

	n := Node(tx, p.NodeID)
	if n != nil {
		n = shallowCopy(n)
		text := fmt.Sprintf("Volume %s: %s, by %s: %s",
			p.VolumeID, p.What, p.By, p.Reason)
		addEvents(tx, n, serverEvent("Storage", text, p.Now))
		schema.Nodes.Put(tx, n)
	}

	return nil
}

// CheckShown rejects the forced release of claims on a node if the operator has decided about another state:
// the node was back since then, or another allocation has a claim. A word about the former machine says
// nothing about them.
func CheckShown(
	tx mvcc.Reader, nodeID string, claims []structs.CSIClaimKey, shown *structs.DetachShown,
) error {
	if shown == nil {
		return nil
	}
	n := Node(tx, nodeID)
	if n != nil && n.Epoch != shown.Epoch {
		return structs.Conflictf("node %s was back since you looked (epoch %d then, %d now): look at it again, and decide anew", csi.NodeName(tx, nodeID), shown.Epoch, n.Epoch)
	}
	for _, k := range claims {
		if !slices.Contains(shown.Allocs, k.AllocID) {
			return structs.Conflictf("allocation %s has a claim on volume %q on node %s, and you were not shown it: "+
				"look at the volume again, and decide anew",
				structs.ShortID(k.AllocID), k.VolumeID, csi.NodeName(tx, nodeID))
		}
	}
	return nil
}

// forceRelease is VolumeForce without the event of the node. Every release without the node's own report goes
// through it.
func forceRelease(tx *WriteTx, p *structs.CSIVolumeForceRequest) error {
	ns := p.RequestNamespace()
	release := &structs.CSIVolumeUnpublishRequest{
		Claims:       p.Claims,
		NodeID:       p.NodeID,
		Operator:     "forced: " + p.Reason,
		WriteOptions: p.WriteOptions,
	}

	if err := VolumeUnpublish(tx, release); err != nil {
		return err
	}

	// The release of the last claim has marked the attachment for its detach, which DeletableAttachment
	// demands.
	if p.Attachment != 0 {
		a, err := csi.DeletableAttachment(tx, p)
		if err != nil {
			return err
		}

		csi.DropAttachment(tx, a, p.Now)
	}

	v := csi.Volume(tx, ns, p.VolumeID)
	if v != nil {
		v = v.Copy()
		v.Forced = &structs.CSIForced{
			NodeID: p.NodeID,
			What:   p.What,
			By:     p.By,
			Reason: p.Reason,
			Time:   p.Now,
		}

		unblock.PutVolumeWithout(tx, v)
	}

	return nil
}
