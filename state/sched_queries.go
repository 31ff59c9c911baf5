package state

import (
	"iter"
	"maps"
	"slices"
	"strings"

	"berth/state/csi"
	"berth/state/schema"
	"berth/structs"
)

// This file has the queries of the scheduler. Their costs for one allocation do not grow with the number of
// rows.

// IntendedAgainst yields the intended claims that conflict with the claim, of live allocations that are
// placed to use its volume and have not claimed it yet.
func IntendedAgainst(tx Reader, c *structs.CSIClaim) iter.Seq[*structs.CSIClaim] {
	return func(yield func(*structs.CSIClaim) bool) {
		k, ok := nextIntendedClass(tx, c, "")
		for ; ok; k, ok = nextIntendedClass(tx, c, schema.ClassKey(k)) {
			if !k.Conflicts(c.Class()) {
				continue
			}
			for a := range schema.AllocsByVolume.Scan(tx, c.Namespace, c.VolumeID, schema.ClassKey(k)) {
				if csi.Claim(tx, c.Namespace, c.VolumeID, a.ID) == nil &&
					!yield(intendedClaim(a, c.VolumeID, k)) {
					return
				}
			}
		}
	}
}

// AllocsOfVolume yields the live allocations that are placed to use a volume.
func AllocsOfVolume(tx Reader, ns, volume string) iter.Seq[*structs.Allocation] {
	return schema.AllocsByVolume.Scan(tx, ns, volume)
}

// nextIntendedClass returns the first class after last, which is a class key, with intended claims of the
// claim's volume.
func nextIntendedClass(
	tx Reader,
	c *structs.CSIClaim,
	last string,
) (k structs.ClaimClass, ok bool) {
	a := schema.AllocsByVolume.First(tx, c.Namespace, c.VolumeID)
	if last != "" {
		a = schema.AllocsByVolume.After(tx, c.Namespace, c.VolumeID, last)
	}

	if a == nil || a.Namespace != c.Namespace {
		return k, false
	}

	for i := range a.CSIVolumes { // an allocation that uses only another volume has no such class
		u := &a.CSIVolumes[i]
		letters := schema.ClassKey(u.Class())
		if u.VolumeID == c.VolumeID && letters > last &&
			(!ok || letters < schema.ClassKey(k)) {
			k = u.Class()
			ok = true
		}
	}

	return k, ok
}

func intendedClaim(a *structs.Allocation, volume string, k structs.ClaimClass) *structs.CSIClaim {
	return &structs.CSIClaim{
		Namespace:      a.Namespace,
		VolumeID:       volume,
		AllocID:        a.ID,
		NodeID:         a.NodeID,
		JobID:          a.JobID,
		TaskGroup:      a.TaskGroup,
		AccessMode:     k.AccessMode,
		AttachmentMode: k.AttachmentMode,
		Mode:           k.Mode,
	}
}

// IntendedBy returns the intended claims of an allocation, for its volumes that it has not claimed yet.
func IntendedBy(tx Reader, a *structs.Allocation) (out []*structs.CSIClaim) {
	for i := range a.CSIVolumes {
		u := &a.CSIVolumes[i]
		if csi.Claim(tx, a.Namespace, u.VolumeID, a.ID) != nil {
			continue
		}
		c := intendedClaim(a, u.VolumeID, u.Class())
		v := csi.Volume(tx, c.Namespace, c.VolumeID)
		if v != nil {
			c.PluginID = v.PluginID
		}
		out = append(out, c)
	}
	return out
}

// LaterEvalsByJob yields a job's pending evaluations that wait for a time.
func LaterEvalsByJob(tx Reader, ns, job string) iter.Seq[*structs.Evaluation] {
	return schema.EvalsByJob.Scan(tx, ns, job, schema.OpenEval, schema.LaterEval)
}

// NewestForPlans returns the index of the newest change in the tables whose changes unblock evaluations.
func NewestForPlans(tx Reader) uint64 {
	return max(
		schema.Nodes.Newest(tx),
		schema.Volumes.Newest(tx),
		schema.Claims.Newest(tx),
		schema.HostClaims.Newest(tx),
		schema.Attachments.Newest(tx),
		schema.Instances.Newest(tx),
		schema.Allocs.Newest(tx),
		schema.Jobs.Newest(tx),
		schema.SchedulerConfig.Newest(tx),
	)
}

// PluginNodes returns a function that returns the nodes with a node instance of a plugin that fits, by ID,
// from one on, and nil at the end.
func PluginNodes(
	tx Reader,
	plugin, from string,
	fits func(*structs.CSIPluginInstance) bool,
) (next func() *structs.Node) {
	rows := schema.Instances.Seek(tx, plugin, string(structs.CSIKindNode), from)
	return func() *structs.Node {
		for {
			i := rows.Next()
			if i == nil || i.PluginID != plugin ||
				i.Kind != structs.CSIKindNode {
				return nil
			}

			if !fits(i) {
				continue
			}

			if n := Node(tx, i.NodeID); n != nil {
				return n
			}
		}
	}
}

// PluginNodesAt returns the nodes of a plugin's instances in a topology that only one node has, by ID. It
// reports false for another topology, which may have any nodes.
func PluginNodesAt(
	tx Reader,
	plugin string,
	topology *structs.CSITopology,
) (at []*structs.Node, own bool) {
	if topology == nil { // it stands for every topology
		return nil, false
	}

	for _, k := range slices.Sorted(maps.Keys(topology.Segments)) {
		rows := schema.InstancesByOwnSegment.Scan(tx, plugin, strings.ToLower(k), topology.Segments[k])
		for i := range rows {
			own = true
			n := Node(tx, i.NodeID)
			if n != nil {
				at = append(at, n)
			}
		}

		if own {
			return at, true
		}
	}

	return nil, false
}

// InstanceStays reports whether an allocation that is to run serves an instance: the one that runs it, or one
// that follows that on its node. An instance of which no allocation is known stays.
func InstanceStays(tx Reader, i *structs.CSIPluginInstance) bool {
	a := Alloc(tx, i.AllocID)
	if i.AllocID == "" || a != nil && !a.Terminal() {
		return true
	}
	for other := range LiveAllocsByNode(tx, i.NodeID) {
		if slices.Contains(PluginHalves(tx, other), i.Key()) {
			return true
		}
	}
	return false
}

// PluginSpread returns the number of nodes that have reported a node instance of a plugin.
func PluginSpread(tx Reader, plugin string) int {
	return csi.TallyOf(tx, plugin, structs.CSIKindNode).Instances
}
