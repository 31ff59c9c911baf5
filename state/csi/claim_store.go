package csi

import (
	"cmp"
	"slices"

	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/structs"
)

// StoreClaim puts a claim that is new or has changed.
func StoreClaim(tx *mvcc.WriteTx, c *structs.CSIClaim) {
	recountQueue(tx, schema.Claims.Put(tx, c), c)
}

// DropClaim deletes a claim.
func DropClaim(tx *mvcc.WriteTx, c *structs.CSIClaim) {
	recountQueue(tx, schema.Claims.Delete(tx, c), nil)
}

// recountQueue changes the counts of a volume's queue from the old claim to the new one. Each may be nil.
func recountQueue(tx *mvcc.WriteTx, was, is *structs.CSIClaim) {
	either := cmp.Or(is, was)
	if either == nil || was != nil && is != nil &&
		was.State == is.State && was.Class() == is.Class() {
		return
	}

	l := &structs.CSIClaimQueueRow{
		Namespace: either.Namespace,
		VolumeID:  either.VolumeID,
	}

	old := schema.ClaimQueues.Get(tx, l.Namespace, l.VolumeID)

	// The stored row does not change, so the new one has a list of its own.
	if old != nil {
		l.Classes = slices.Clone(old.Classes)
		if !IsGranted(was) && !IsGranted(is) {
			keepHolders(old, l)
		}
	}

	addToClass(l, was, -1)
	addToClass(l, is, 1)
	if len(l.Classes) == 0 {
		schema.ClaimQueues.Delete(tx, l)
		return
	}

	schema.ClaimQueues.Put(tx, l)
}

// addToClass changes the count of the class of a claim, which may be nil. The classes stay in the order of
// their keys, and a class without claims goes.
func addToClass(l *structs.CSIClaimQueueRow, c *structs.CSIClaim, by int) {
	if c == nil {
		return
	}

	k := c.Class()
	byLetters := func(n structs.CSIClassCount, letters string) int {
		return cmp.Compare(schema.ClassKey(n.Class()), letters)
	}

	i, found := slices.BinarySearchFunc(l.Classes, schema.ClassKey(k), byLetters)
	if !found {
		counted := structs.CSIClassCount{
			AccessMode:     k.AccessMode,
			AttachmentMode: k.AttachmentMode,
			Mode:           k.Mode,
		}

		l.Classes = slices.Insert(l.Classes, i, counted)
	}

	n := &l.Classes[i]
	*n.In(c.State) += by
	if n.Granted == 0 && n.Waiting == 0 {
		l.Classes = slices.Delete(l.Classes, i, i+1)
	}
}
