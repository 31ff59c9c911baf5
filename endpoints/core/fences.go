package core

import (
	"slices"

	"berth/state"
	"berth/structs"
	"berth/structs/cluster"
)

// FenceDevices returns the devices that fence a node with its claims, and the others with the reasons. A
// server without devices returns an empty list, which is no null in JSON.
func (s *Server) FenceDevices(tx state.Reader, n *structs.Node, claims []*cluster.LostClaim) (
	[]*cluster.FenceDevice, []*cluster.FenceMismatch,
) {
	if s.Fencing == nil {
		return []*cluster.FenceDevice{}, nil
	}
	return s.Fencing.For(state.FenceTargetOf(tx, n), claims)
}

// Fences returns a function that reports whether a device of this server can carry out an order to fence a
// node.
func (s *Server) Fences(tx *state.ReadTx) func(*structs.Node) bool {
	return func(n *structs.Node) bool {
		devices, _ := s.FenceDevices(tx, n, state.LostClaims(tx, n.ID))
		return slices.ContainsFunc(devices, (*cluster.FenceDevice).Useful)
	}
}
