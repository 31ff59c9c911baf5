package state

import (
	"berth/state/lease"
	"berth/state/schema"
	"berth/structs"
)

// epochAfter returns the epoch of a node that has a status from now on: see structs.Node.
func epochAfter(tx *WriteTx, old *structs.Node, status string) uint64 {
	comes := old == nil || old.Status == structs.NodeDown && status != structs.NodeDown
	switch {
	case !comes:
		return old.Epoch
	case !lease.CountsEpochs(tx):
		return 0
	}
	return tx.Index
}

// mustComeClean reports whether a node that comes back has to tell that it is clean: see
// structs.Node.Returning. Nodes and servers of level 1 know nothing of it.
func mustComeClean(tx Reader, n *structs.Node) bool {
	return n.BootID != "" && lease.CountsEpochs(tx)
}

// endReturn lets a node that came back take allocations.
func endReturn(tx *WriteTx, n *structs.Node, now int64) {
	n.Returning = false
	addEvents(tx, n, serverEvent("Cluster", "Node has released all that is no longer its own", now))
	schema.Nodes.Put(tx, n)
	evaluateNode(tx, n.ID, true, now)
}
