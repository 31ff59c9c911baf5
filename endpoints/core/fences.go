package core

import (
	"slices"

	"berth/state"
	"berth/structs"
	"berth/structs/nodeloss"
)

// FenceDevices returns the devices that fence a node with its claims. A server without devices returns an
// empty list, which is no null in JSON.
func (s *Server) FenceDevices(n *structs.Node, claims []*nodeloss.LostClaim) []*nodeloss.FenceDevice {
	if s.Fencing == nil {
		return []*nodeloss.FenceDevice{}
	}
	return s.Fencing.For(n, claims)
}

// Fences returns a function that reports whether a device of this server can carry out an order to fence a
// node.
func (s *Server) Fences(tx *state.ReadTx) func(*structs.Node) bool {
	return func(n *structs.Node) bool {
		devices := s.FenceDevices(n, state.LostClaims(tx, n.ID))
		return slices.ContainsFunc(devices, (*nodeloss.FenceDevice).Useful)
	}
}
