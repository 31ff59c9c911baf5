package unblock

import (
	"strings"

	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/structs"
)

// An evaluation that found no capacity has tried every node. When capacity is freed, it need not try all
// nodes again, but only those on which capacity was freed since. The unblock row records a few of these
// nodes.

// KeptFreed is the number of recorded nodes. Of earlier ones the row only records that they existed.
const KeptFreed = 32

// Capacity unblocks the evaluations that wait for capacity, and records the node with freed capacity.
// The node "" stands for any node.
func Capacity(tx *mvcc.WriteTx, node string) {
	KeyOnly(tx, structs.WakeCapacity)
	if node != "" && schema.JobsPerNode.Has(tx) {
		KeyOnly(tx, structs.WakeNode(node))
	}

	old := schema.Unblocks.Get(tx, structs.WakeCapacity)
	freed := structs.FreedNode{Node: node, At: tx.Index}
	n := len(old.Freed)
	if n > 0 && old.Freed[n-1] == freed {
		return
	}

	w := *old
	if node == "" {
		w.Freed = nil
		w.Forgotten = tx.Index
		schema.Unblocks.Put(tx, &w)
		return
	}

	if w.Forgotten == 0 {
		w.Forgotten = tx.Index - 1 // the row records all nodes after this index
	}

	kept := make([]structs.FreedNode, 0, KeptFreed+1)
	for _, r := range w.Freed {
		if r.Node != node {
			kept = append(kept, r)
		}
	}

	kept = append(kept, freed)
	if len(kept) > KeptFreed {
		w.Forgotten = kept[0].At
		kept = kept[1:]
	}

	w.Freed = kept
	schema.Unblocks.Put(tx, &w)
}

// Preemption unblocks the evaluations that found too little capacity, on any node or on one: they may
// displace more allocations than before. No capacity is freed.
func Preemption(tx *mvcc.WriteTx) {
	KeyOnly(tx, structs.WakeCapacity)
	of := structs.WakeNode("")
	for key := of; ; {
		e := schema.EvalsByBlocked.After(tx, key)
		next, found := firstKeyAfter(e, key)
		if !found || !strings.HasPrefix(next, of) {
			return
		}
		key = next
		KeyOnly(tx, key)
	}
}

// firstKeyAfter returns the first of the unblock keys of an evaluation that follows another key.
func firstKeyAfter(e *structs.Evaluation, key string) (next string, found bool) {
	if e == nil {
		return "", false
	}
	for _, k := range e.BlockedOn {
		if k > key && (!found || k < next) {
			next = k
			found = true
		}
	}
	return next, found
}

// NodesFreedSince lists the nodes on which capacity was freed after an index. It reports false if there may
// have been others.
func NodesFreedSince(tx mvcc.Reader, index uint64) (nodes []string, known bool) {
	w := schema.Unblocks.Get(tx, structs.WakeCapacity)
	if w == nil || w.Forgotten == 0 ||
		index < w.Forgotten {
		return nil, false
	}
	for _, r := range w.Freed {
		if r.At > index {
			nodes = append(nodes, r.Node)
		}
	}
	return nodes, true
}
