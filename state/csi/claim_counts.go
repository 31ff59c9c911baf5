package csi

import (
	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/structs"
)

// ClassCounts returns the numbers of a volume's claims of each class, nil if it has none.
func ClassCounts(tx mvcc.Reader, ns, volume string) []structs.CSIClassCount {
	l := schema.ClaimQueues.Get(tx, ns, volume)
	if l != nil {
		return l.Classes
	}
	return nil
}

// claimStates are the states of a claim.
var claimStates = []string{structs.ClaimGranted, structs.ClaimWaiting}

// ClassesIn lists the classes of the volume's claims in a state.
func ClassesIn(tx mvcc.Reader, v *structs.CSIVolume, state string) []structs.ClaimClass {
	return classesOf(ClassCounts(tx, v.Namespace, v.ID), state)
}

// ClaimCount returns the number of a volume's claims, granted and waiting. It reads no claim.
func ClaimCount(tx mvcc.Reader, ns, volume string) (count int) {
	for _, n := range ClassCounts(tx, ns, volume) {
		count += n.Granted + n.Waiting
	}
	return count
}

func countOf(tx mvcc.Reader, v *structs.CSIVolume, of classState) int {
	for _, n := range ClassCounts(tx, v.Namespace, v.ID) {
		if n.Class() == of.class {
			return *n.In(of.state)
		}
	}
	return 0
}

// classesOf lists the classes with claims in a state, in the order of the row.
func classesOf(counts []structs.CSIClassCount, state string) (out []structs.ClaimClass) {
	for _, n := range counts {
		if *n.In(state) > 0 {
			out = append(out, n.Class())
		}
	}
	return out
}

// IsGranted reports whether a claim is granted. A nil claim is not.
func IsGranted(c *structs.CSIClaim) bool {
	return c != nil && c.State == structs.ClaimGranted
}
