package scheduler

import "berth/structs"

// Demand is one allocation of a group that needs a node.
type Demand struct {
	group  *compiledGroup
	index  int
	leaves *structs.Allocation // of an older version, which stops when this one has a place; nil: none

	uses   []volumeUse // looked up once
	looked bool
}
