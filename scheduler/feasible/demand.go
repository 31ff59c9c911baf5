package feasible

import "berth/structs"

// Demand is one allocation of a group that needs a node.
type Demand struct {
	Group  *Group
	Index  int                 // of the allocation in its group, 0 in a per-node job
	Leaves *structs.Allocation // of an older version, which stops when this one has a place; nil: none
	Uses   []VolumeUse         // its volumes, from BlockedEverywhere on

	looked bool // for the volumes
}
