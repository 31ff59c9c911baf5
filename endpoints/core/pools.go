package core

import (
	"berth/state"
	"berth/structs"
	"berth/structs/cluster"
)

// FindNodePool returns a node pool that is defined or that a node names. The error is not-found.
func FindNodePool(tx *state.ReadTx, name string) (*cluster.NodePool, error) {
	for _, p := range state.NodePools(tx) {
		if p.Name == name {
			return p, nil
		}
	}
	return nil, structs.NotFoundf("there is no node pool %q: it is not defined, and no node names it",
		structs.Cut(name, structs.MaxQuoted))
}
