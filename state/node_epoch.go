package state

import (
	"berth/state/schema"
	"berth/structs"
)

// epochAfter returns the epoch of a node that has a status from now on: see structs.Node.
func epochAfter(tx *WriteTx, old *structs.Node, status string) uint64 {
	comes := old == nil || old.Status == structs.NodeDown && status != structs.NodeDown
	if !comes {
		return old.Epoch
	}
	return tx.Index
}

// endReturn lets a node that came back take allocations.
func endReturn(tx *WriteTx, n *structs.Node, now int64) {
	n.Returning = false
	addEvents(tx, n, serverEvent("Cluster", "Node has released all that is no longer its own", now))
	schema.Nodes.Put(tx, n)
	evaluateNode(tx, n.ID, true, now)
}
