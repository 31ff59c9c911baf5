package state

import (
	"iter"
	"maps"
	"slices"
	"strings"

	"berth/structs"
)

// The queries of the scheduler. Their costs for one allocation do not grow with the number of rows.

// ownSegments are the segments, key and value, that are a node's own: the value is its ID, or the one that
// its plugin knows it by. Keys are in lower case: they compare without regard to case.
func ownSegments(i *structs.CSIPluginInstance) (own [][2]string) {
	if i.Kind != structs.CSIKindNode || i.NodeInfo == nil ||
		i.NodeInfo.AccessibleTopology == nil {
		return nil
	}
	for k, v := range i.NodeInfo.AccessibleTopology.Segments {
		if v != "" &&
			(v == i.NodeInfo.ID || v == i.NodeID) {
			own = append(own, [2]string{strings.ToLower(k), v})
		}
	}
	return own
}

// IntendedAgainst yields, in the form of claims, how live allocations that have not claimed a volume yet are
// placed to use it, where that excludes the claim.
func IntendedAgainst(tx Reader, c *structs.CSIClaim) iter.Seq[*structs.CSIClaim] {
	return func(yield func(*structs.CSIClaim) bool) {
		for k, ok := nextUse(tx, c, ""); ok; k, ok = nextUse(tx, c, classKey(k)) {
			if !k.Conflicts(c.Class()) {
				continue
			}
			for a := range allocsByVolume.Scan(tx, c.Namespace, c.VolumeID, classKey(k)) {
				if claims.Get(tx, c.Namespace, c.VolumeID, a.ID) == nil &&
					!yield(intent(a, c.VolumeID, k)) {
					return
				}
			}
		}
	}
}

// nextUse is the class, after one that is given by its letters, in which the claim's volume is to be used.
func nextUse(tx Reader, c *structs.CSIClaim, last string) (k structs.ClaimClass, ok bool) {
	a := allocsByVolume.First(tx, c.Namespace, c.VolumeID)
	if last != "" {
		a = allocsByVolume.After(tx, c.Namespace, c.VolumeID, last)
	}
	if a == nil || a.Namespace != c.Namespace {
		return k, false
	}
	for i := range a.CSIVolumes { // none is found where the allocation has come by another volume
		at := a.CSIVolumes[i].Class()
		if a.CSIVolumes[i].VolumeID == c.VolumeID &&
			classKey(at) > last &&
			(!ok || classKey(at) < classKey(k)) {
			k = at
			ok = true
		}
	}
	return k, ok
}

func intent(a *structs.Allocation, volume string, k structs.ClaimClass) *structs.CSIClaim {
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

// IntendedBy are, in the form of claims, those of an allocation's volumes that it has not claimed yet.
func IntendedBy(tx Reader, a *structs.Allocation) (out []*structs.CSIClaim) {
	for i := range a.CSIVolumes {
		u := &a.CSIVolumes[i]
		if claims.Get(tx, a.Namespace, u.VolumeID, a.ID) != nil {
			continue
		}
		c := intent(a, u.VolumeID, u.Class())
		v := Volume(tx, c.Namespace, c.VolumeID)
		if v != nil {
			c.PluginID = v.PluginID
		}
		out = append(out, c)
	}
	return out
}

// LaterEvalsByJob yields a job's evaluations that are to be processed at a time.
func LaterEvalsByJob(tx Reader, ns, job string) iter.Seq[*structs.Evaluation] {
	return evalsByJob.Scan(tx, ns, job, openEval, laterEval)
}

// PluginNodes yields the nodes with a node instance of a plugin, by ID, from one on.
func PluginNodes(tx Reader, plugin, from string) iter.Seq[*structs.Node] {
	return func(yield func(*structs.Node) bool) {
		rows := instances.Seek(tx, plugin, string(structs.CSIKindNode), from)
		for i := rows.Next(); i != nil && i.PluginID == plugin && i.Kind == structs.CSIKindNode; i = rows.Next() {
			n := Node(tx, i.NodeID)
			if n != nil && !yield(n) {
				return
			}
		}
	}
}

// PluginNodesAt returns the nodes of a plugin's instances at a place that only one node has, by ID. It
// reports false for a place of another kind, which may have any nodes.
func PluginNodesAt(tx Reader, plugin string, place *structs.CSITopology) (at []*structs.Node, own bool) {
	if place == nil { // an older version let it in; it is everywhere
		return nil, false
	}
	for _, k := range slices.Sorted(maps.Keys(place.Segments)) {
		for i := range instancesByPlace.Scan(tx, plugin, strings.ToLower(k), place.Segments[k]) {
			own = true
			if n := Node(tx, i.NodeID); n != nil {
				at = append(at, n)
			}
		}
		if own {
			return at, true
		}
	}
	return nil, false
}

// PluginSpread is how many nodes have reported a node instance of a plugin.
func PluginSpread(tx Reader, plugin string) int {
	return tallyOf(tx, plugin, structs.CSIKindNode).Instances
}
