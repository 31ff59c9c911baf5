package csi

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/structs"
)

// Claim returns the claim, nil if there is none.
func Claim(tx mvcc.Reader, ns, volume, alloc string) *structs.CSIClaim {
	return schema.Claims.Get(tx, ns, volume, alloc)
}

// ClaimsByVolume returns a volume's claims in the order in which they were made.
func ClaimsByVolume(tx mvcc.Reader, ns, volume string) []*structs.CSIClaim {
	out := slices.Collect(schema.Claims.Scan(tx, ns, volume))
	slices.SortFunc(out, InQueueOrder)
	return out
}

// InQueueOrder compares two claims of a volume by the entries that made them, and within an entry by their
// numbers.
func InQueueOrder(a, b *structs.CSIClaim) int {
	return cmp.Or(
		cmp.Compare(a.CreateIndex, b.CreateIndex),
		cmp.Compare(a.Seq, b.Seq),
	)
}

// ClaimsByNode yields the claims for allocations on a node.
func ClaimsByNode(tx mvcc.Reader, node string) iter.Seq[*structs.CSIClaim] {
	return schema.ClaimsByNode.Scan(tx, node)
}

// HasGrantedClaims reports whether allocations of a node have volumes that were not released.
func HasGrantedClaims(tx mvcc.Reader, node string) bool {
	for c := range ClaimsByNode(tx, node) {
		if c.State == structs.ClaimGranted {
			return true
		}
	}
	return false
}

// ClaimsByAlloc yields an allocation's claims. All of them are on its node.
func ClaimsByAlloc(tx mvcc.Reader, alloc string) iter.Seq[*structs.CSIClaim] {
	a := schema.Allocs.Get(tx, alloc)
	if a == nil {
		return func(func(*structs.CSIClaim) bool) {}
	}
	return schema.ClaimsByNode.Scan(tx, a.NodeID, alloc)
}

// EndedClaimsOfNode yields the claims of a node whose allocations have ended and whose volume the node has
// not released.
func EndedClaimsOfNode(tx mvcc.Reader, node string) iter.Seq[*structs.CSIClaim] {
	return schema.EndedClaims.Scan(tx, node)
}

// NodesWithEndedClaims yields the nodes with claims that EndedClaimsOfNode yields. It does not read all of
// these claims. A blocking query cannot wait for this result.
func NodesWithEndedClaims(tx mvcc.Reader) iter.Seq[string] {
	return func(yield func(string) bool) {
		// After the first claim of a node, the walk seeks the next node.
		c := schema.EndedClaims.First(tx)
		for c != nil && yield(c.NodeID) {
			c = schema.EndedClaims.After(tx, c.NodeID)
		}
	}
}

// ClaimsFrom yields the claims of a namespace on volumes whose ID begins with prefix, from a namespace and
// volume on.
func ClaimsFrom(
	tx *mvcc.ReadTx,
	ns, prefix string,
	at mvcc.Page,
) iter.Seq[*structs.CSIClaim] {
	rows := schema.Claims.Range(tx, schema.NamespaceScope(ns, prefix), at)
	return schema.Filter(rows, func(c *structs.CSIClaim) bool {
		return strings.HasPrefix(c.VolumeID, prefix)
	})
}

// ClaimsOf yields a volume's claims, by allocation.
func ClaimsOf(tx *mvcc.ReadTx, ns, volume string) iter.Seq[*structs.CSIClaim] {
	return schema.Claims.Scan(tx, ns, volume)
}

// QueuePage is a part of the queue of a volume.
type QueuePage struct {
	From    *structs.CSIClaim // the position of the first one, which need not exist; nil is the beginning
	Reverse bool              // the last claim first; then From is the end in the order of the queue
}

// QueueFrom yields the claims of a volume in the order of its queue. It reports false if the index of classes
// does not have all claims: it omits granted claims of a class that does not conflict with itself.
func QueueFrom(
	tx *mvcc.ReadTx, ns, volume string, p QueuePage,
) (rows iter.Seq[*structs.CSIClaim], sorted bool) {
	var classes [][]string
	for _, n := range ClassCounts(tx, ns, volume) {
		k := n.Class()

		// The index omits these claims, because they may be as many as the allocations of a job.
		if n.Granted > 0 && !k.Conflicts(k) {
			return nil, false
		}

		for _, state := range claimStates {
			if *n.In(state) > 0 {
				scope := []string{ns, volume, state, schema.ClassKey(k)}
				classes = append(classes, scope)
			}
		}
	}

	schema.Claims.Has(tx, ns, volume) // so that a blocking query watches all of them
	queuesFrom := func() (queues []func() *structs.CSIClaim) {
		for _, scope := range classes {
			at := mvcc.Page{Reverse: p.Reverse}
			if p.From != nil {
				created := mvcc.Ordered(p.From.CreateIndex)
				seq := mvcc.Ordered(uint64(p.From.Seq))
				at.From = append(slices.Clone(scope), created, seq)
			}

			queues = append(queues, schema.ClaimsByClass.RangeFunc(tx, mvcc.KeyOf(scope...), at))
		}

		return queues
	}

	return mvcc.MergeSorted(queuesFrom, p.Reverse, InQueueOrder), true
}
