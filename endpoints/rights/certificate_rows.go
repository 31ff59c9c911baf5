package rights

import (
	"slices"

	"berth/state"
	"berth/structs"
)

// The rules for claims and plugins hold where the roles in certificates decide. Elsewhere whoever reaches a
// server may register a job that asks for any volume, so they would protect nothing. The rules need the rows
// of the server that answers, and no caller: a request of an operator names no node.

// CheckClaimed returns an error unless a volume block of the allocation asks for the claim: for the same
// volume, in the same modes or to read where the block asks to write.
func CheckClaimed(a *structs.Allocation, c *structs.CSIClaim) error {
	asks := func(u structs.CSIVolumeUse) bool {
		asked := u.Class()
		if c.Mode == structs.ClaimRead {
			asked.Mode = structs.ClaimRead
		}
		return u.VolumeID == c.VolumeID && asked == c.Class()
	}
	if slices.ContainsFunc(a.CSIVolumes, asks) {
		return nil
	}
	return structs.Deniedf("no volume block of allocation %s asks for volume %q in the modes %s: a node claims "+
		"the volumes that its jobs ask for", a.ID, structs.Cut(c.VolumeID, structs.MaxQuoted), c.Class())
}

// RunsPlugin reports whether the node of an instance may report it: its allocation is on the node, and a task
// of it runs that half of the plugin. The servers send calls, with secrets of volumes, to such an instance.
func RunsPlugin(tx state.Reader, i *structs.CSIPluginInstance) bool {
	a := state.Alloc(tx, i.AllocID)
	if a == nil || a.NodeID != i.NodeID {
		return false
	}

	job := state.JobOf(tx, a)
	if job == nil || job.Group(a.TaskGroup) == nil {
		return false
	}

	return slices.ContainsFunc(job.Group(a.TaskGroup).Tasks, func(t *structs.Task) bool {
		c := t.CSIPluginConfig
		return c != nil && c.ID == i.PluginID && slices.Contains(c.Kinds(), i.Kind)
	})
}

// CheckAllocReader returns an error unless a node may read an allocation: it is on the node, one there waits
// for its end, or one there is of the same group and may take over its data. nodeID is "" for a caller that
// is no node.
func CheckAllocReader(tx state.Reader, nodeID string, a *structs.Allocation) error {
	if nodeID == "" || a.NodeID == nodeID {
		return nil
	}

	for own := range state.AllocsByNode(tx, nodeID) {
		sameGroup := own.Namespace == a.Namespace && own.JobID == a.JobID && own.TaskGroup == a.TaskGroup
		if sameGroup || awaits(own, a.ID) {
			return nil
		}
	}
	return structs.Deniedf("allocation %s is not on node %s, and none there waits for it: a node reads its own allocations", a.ID, nodeID)
}

func awaits(a *structs.Allocation, id string) bool {
	for awaited := range a.Awaits() {
		if awaited == id {
			return true
		}
	}
	return false
}
