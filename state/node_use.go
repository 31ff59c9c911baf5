package state

import (
	"berth/internal/mvcc"
	"berth/structs"
)

// nodeUseRow has the sums over the allocations of one node that hold something of it. Zero sums have no row.
type nodeUseRow struct {
	structs.Indexes
	structs.NodeUse
	NodeID string
}

// UseOfNode returns the sums over the allocations that HoldersByNode yields.
func UseOfNode(tx Reader, node string) structs.NodeUse {
	if row := nodeUses.Get(tx, node); row != nil {
		return row.NodeUse
	}
	return structs.NodeUse{}
}

// NodesWithUse returns a function that returns the nodes by ID, from one on, each with its use, and nil at
// the end. A reader of many nodes looks up none of the uses.
func NodesWithUse(tx Reader, from string) (next func() (*structs.Node, *structs.NodeUse)) {
	rows := nodes.Seek(tx, from)
	uses := nodeUses.Seek(tx, from)
	use := uses.Next()
	return func() (*structs.Node, *structs.NodeUse) {
		n := rows.Next()
		if n == nil {
			return nil, nil
		}
		for use != nil && use.NodeID < n.ID {
			use = uses.Next()
		}
		if use == nil || use.NodeID != n.ID {
			return n, &noUse
		}
		return n, &use.NodeUse
	}
}

// noUse is the use of a node without allocations.
var noUse structs.NodeUse

// recountUse keeps the use of a node when one of its allocations changes. before or now may be nil.
func recountUse(tx *WriteTx, before, now *structs.Allocation) {
	was := structs.NodeUseOf(before)
	is := structs.NodeUseOf(now)
	switch {
	case before != nil && now != nil && before.NodeID != now.NodeID:
		changeUse(tx, before.NodeID, was, structs.NodeUse{})
		changeUse(tx, now.NodeID, structs.NodeUse{}, is)
	case now != nil:
		changeUse(tx, now.NodeID, was, is)
	default:
		changeUse(tx, before.NodeID, was, is)
	}
}

func changeUse(tx *WriteTx, node string, was, is structs.NodeUse) {
	if was == is {
		return
	}
	nodeUses.Edit(tx, func(before *nodeUseRow) *nodeUseRow {
		row := &nodeUseRow{NodeID: node}
		if before != nil {
			row.NodeUse = before.NodeUse
		}
		row.NodeUse = row.Minus(was).Plus(is)
		if row.NodeUse == (structs.NodeUse{}) {
			return nil
		}
		return row
	}, node)
}

// sumUses computes the uses of all nodes after a snapshot file was loaded.
func sumUses(tx *mvcc.LoadTx) {
	for node, use := range usesOf(tx) {
		nodeUses.Insert(tx, &nodeUseRow{NodeID: node, NodeUse: use})
	}
}

// usesOf sums the allocations by node.
func usesOf(tx Reader) map[string]structs.NodeUse {
	uses := map[string]structs.NodeUse{}
	for a := range allocs.Scan(tx) {
		use := structs.NodeUseOf(a)
		if use != (structs.NodeUse{}) {
			uses[a.NodeID] = uses[a.NodeID].Plus(use)
		}
	}
	return uses
}

// nodeUses checks that the use of each node is the sum over its allocations.
func (c *checker) nodeUses() {
	kept := map[string]structs.NodeUse{}
	for row := range nodeUses.Scan(c) {
		kept[row.NodeID] = row.NodeUse
	}
	wantCounts(c, "use of node", usesOf(c), kept)
}
