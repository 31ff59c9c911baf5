package endpoints

import (
	"context"

	"berth/structs"
)

// update refuses the difference that a node of an earlier version sends. The node then registers, which
// reports all of it.
func (n nodes) update(
	_ context.Context,
	node *structs.Node,
	_ *structs.NodeUpdateRequest,
	_ *structs.Empty,
) (uint64, error) {
	return 0, structs.Preconditionf(
		"node %s: the servers accept no partial update; register the node", node.ID)
}
