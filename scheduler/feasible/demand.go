package feasible

import (
	"iter"

	"berth/scheduler/hostplace"
	"berth/structs"
)

// Demand is one allocation of a group that needs a node.
type Demand struct {
	Group  *Group
	Index  int                 // of the allocation in its group, 0 in a per-node job
	Leaves *structs.Allocation // of an older version, which stops when this one has a place; nil: none
	Prev   string              // the ID of the allocation that this one replaces, "" for none
	Uses   []VolumeUse         // its volumes, from BlockedEverywhere on
	Hosts  hostplace.Demand    // likewise

	looked bool            // for the volumes
	here   *hostplace.Here // on a node: see onNode; nil: the group has no dynamic host volume there
}

// UsesVolumes reports whether it uses CSI volumes, or may use dynamic host volumes.
func (d *Demand) UsesVolumes() bool { return len(d.Uses) > 0 || d.Hosts.Dynamic() }

// HostKeys yields the unblock keys of its host volumes.
func (d *Demand) HostKeys() iter.Seq[string] {
	return hostplace.Keys(d.Group.outlook.Namespace, d.Group.hostVolumes, d.Index)
}
