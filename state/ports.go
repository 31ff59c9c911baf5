package state

import (
	"cmp"
	"slices"

	"berth/state/schema"
	"berth/structs"
	"berth/structs/capacity"
)

// PortsInUse returns the ports of a node with the allocation that has each. An allocation has its ports until
// its node reports its end, or until the plan that stops it gives them to another: the newest one has a port.
func PortsInUse(tx Reader, n *structs.Node) *capacity.NodePorts {
	use := capacity.PortUse{}
	for _, a := range slices.SortedFunc(schema.AllocsByPorts.Scan(tx, n.ID), byCreation) {
		use.Add(a)
	}
	return capacity.NewNodePorts(n, use)
}

func byCreation(a, b *structs.Allocation) int {
	return cmp.Or(
		cmp.Compare(a.CreateIndex, b.CreateIndex),
		cmp.Compare(a.ID, b.ID))
}

// checkPorts checks that only the newest of the allocations with one port of a node is to run: the others
// were stopped, and their node has not reported their end.
func checkPorts(c *schema.Report) {
	uses := map[string]capacity.PortUse{} // by node
	all := slices.SortedFunc(schema.AllocsByPorts.Scan(c), byCreation)
	for _, a := range slices.Backward(all) {
		use := uses[a.NodeID]
		if use == nil {
			use = capacity.PortUse{}
			uses[a.NodeID] = use
		}
		newer := use.Holder(a)
		c.Want(newer == "" || a.ServerTerminal(),
			"allocation %s: allocation %s has one of its ports", a.ID, newer)
		use.Add(a)
	}
}
