package state

import (
	"berth/state/schema"
	"berth/structs"
	"berth/structs/capacity"
)

// UseOfNode returns the sums over the allocations that HoldersByNode yields.
func UseOfNode(tx Reader, node string) capacity.NodeUse {
	return schema.NodeUses.Of(tx, node)
}

// UsesFrom returns a function that is UseOfNode for nodes in the order of their IDs, from one on. A reader of
// many nodes looks up none of the uses.
func UsesFrom(tx Reader, from string) func(node string) *capacity.NodeUse {
	return schema.NodeUses.Ascending(tx, from)
}

// NodesWithUse returns a function that returns the nodes by ID, from one on, each with its use, and nil at
// the end.
func NodesWithUse(tx Reader, from string) (next func() (*structs.Node, *capacity.NodeUse)) {
	rows := schema.Nodes.Seek(tx, from)
	useOf := UsesFrom(tx, from)
	return func() (*structs.Node, *capacity.NodeUse) {
		n := rows.Next()
		if n == nil {
			return nil, nil
		}
		return n, useOf(n.ID)
	}
}

// checkNodeUses checks that the use of each node is the sum over its allocations.
func checkNodeUses(c *schema.Report) {
	counted := map[string]capacity.NodeUse{}
	kept := map[string]capacity.NodeUse{}
	for a := range schema.Allocs.Scan(c) {
		counted[a.NodeID] = counted[a.NodeID].Plus(capacity.NodeUseOf(a))
		kept[a.NodeID] = UseOfNode(c, a.NodeID)
	}
	schema.CheckCounts(c, "use of node", counted, kept)
}
