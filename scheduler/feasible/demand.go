package feasible

import "berth/structs"

// Demand is one allocation of a group that needs a node.
type Demand struct {
	Group  *Group
	Index  int
	Leaves *structs.Allocation // of an older version, which stops when this one has a place; nil: none

	Uses   []VolumeUse // looked up once
	looked bool
}
