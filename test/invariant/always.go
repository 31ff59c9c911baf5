package invariant

import (
	"fmt"
	"path"
	"slices"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
)

// CapacityOfNodes finds nodes whose allocations that may run now have more cpu, memory or disk than the node.
func CapacityOfNodes(v *View) (faults []string) {
	for id, n := range v.Nodes {
		var used structs.Resources
		for _, a := range v.mayRun(id) {
			used.CPU += a.Resources.CPU
			used.MemoryMB += a.Resources.MemoryMB
			used.DiskMB += a.Resources.DiskMB
		}
		have := n.Available()
		if used.CPU > have.CPU || used.MemoryMB > have.MemoryMB || used.DiskMB > have.DiskMB {
			faults = append(faults, fmt.Sprintf("node %s: %d MHz, %d MiB, %d MiB of disk of %d, %d, %d",
				id, used.CPU, used.MemoryMB, used.DiskMB, have.CPU, have.MemoryMB, have.DiskMB))
		}
	}
	return faults
}

// givenOnce finds parts of a node that two allocations have which are to run. One that is to end may have the
// part besides: the node lets its successor wait.
func givenOnce(v *View, parts func(*structs.Allocation) []string) (faults []string) {
	for id := range v.Nodes {
		holder := map[string]*structs.Allocation{}
		for _, a := range v.toRun(id) {
			for _, part := range parts(a) {
				if other := holder[part]; other != nil {
					faults = append(faults, fmt.Sprintf("node %s: %s is of %s and of %s",
						id, part, describe(other), describe(a)))
				}
				holder[part] = a
			}
		}
	}
	return faults
}

// DevicesOnce finds devices that two allocations have.
func DevicesOnce(v *View) []string {
	return givenOnce(v, func(a *structs.Allocation) (parts []string) {
		for _, groups := range a.Devices {
			for _, g := range groups {
				for _, id := range g.DeviceIDs {
					parts = append(parts, g.ID()+" "+id)
				}
			}
		}
		return parts
	})
}

// PortsOnce finds ports that two allocations have.
func PortsOnce(v *View) []string {
	return givenOnce(v, func(a *structs.Allocation) (parts []string) {
		for _, p := range a.Ports {
			parts = append(parts, fmt.Sprintf("port %s:%d", p.HostIP, p.Value))
		}
		return parts
	})
}

// HostVolumeWriters finds host volumes that two allocations write of which one demands to be alone.
func HostVolumeWriters(v *View) (faults []string) {
	for id := range v.Nodes {
		writers := map[string][]*structs.Allocation{}
		alone := map[string]bool{}
		for _, a := range v.toRun(id) {
			for _, r := range v.groupOf(a).Volumes {
				if r.Type == structs.VolumeTypeHost && !r.ReadOnly {
					writers[r.Source] = append(writers[r.Source], a)
					alone[r.Source] = alone[r.Source] || writesAlone(r)
				}
			}
		}
		for name, all := range writers {
			if alone[name] && len(all) > 1 {
				faults = append(faults, fmt.Sprintf("node %s: host volume %s has %s and %s",
					id, name, describe(all[0]), describe(all[1])))
			}
		}
	}
	return faults
}

func writesAlone(r *structs.VolumeRequest) bool {
	return r.AccessMode == structs.CSISingleNodeWriter || r.AccessMode == structs.CSISingleNodeSingleWriter
}

// excludes reports whether two claims of one volume exclude each other.
func excludes(a, b *structs.CSIClaim) bool {
	switch {
	case a.AccessMode != b.AccessMode || a.AttachmentMode != b.AttachmentMode:
		return true
	case a.AccessMode == structs.CSISingleNodeReader, a.AccessMode == structs.CSISingleNodeWriter,
		a.AccessMode == structs.CSISingleNodeSingleWriter:
		return true
	case a.AccessMode == structs.CSISingleNodeMultiWriter:
		return a.NodeID != b.NodeID
	case a.AccessMode == structs.CSIMultiNodeSingleWriter:
		return a.Mode == structs.ClaimWrite && b.Mode == structs.ClaimWrite
	}
	return false
}

// sameVolume reports whether two claims are of one volume and of different allocations.
func sameVolume(a, b *structs.CSIClaim) bool {
	return a.Namespace == b.Namespace && a.VolumeID == b.VolumeID && a.AllocID != b.AllocID
}

// VolumeWriters finds granted claims that exclude each other.
func VolumeWriters(v *View) (faults []string) {
	for i, a := range v.Claims {
		for _, b := range v.Claims[:i] {
			granted := a.State == structs.ClaimGranted && b.State == structs.ClaimGranted
			if granted && sameVolume(a, b) && excludes(a, b) {
				faults = append(faults,
					fmt.Sprintf("volume %s is granted to %s and %s", a.VolumeID, a.AllocID, b.AllocID))
			}
		}
	}
	return faults
}

// WaitsForEnding finds allocations that wait for one that nobody stops: they would wait for ever. A node that
// rejects its part of a plan keeps an allocation whose successor another node has accepted: the evaluation is
// pending again then, and its next plan stops the allocation.
func WaitsForEnding(v *View) (faults []string) {
	for _, a := range v.Allocs {
		key := structs.JobKey{Namespace: a.Namespace, ID: a.JobID}
		if a.Terminal() || v.pending(key) {
			continue
		}
		for id := range a.Awaits() {
			other := v.Allocs[id]
			if other != nil && !other.Terminal() {
				faults = append(faults, fmt.Sprintf("%s waits for %s", describe(a), describe(other)))
			}
		}
	}
	return faults
}

// WaitsForOlder finds allocations that wait for one that is not older, so that two could wait for each other.
func WaitsForOlder(v *View) (faults []string) {
	for _, a := range v.Allocs {
		for id := range a.Awaits() {
			other := v.Allocs[id]
			if other != nil && other.CreateIndex >= a.CreateIndex {
				faults = append(faults, fmt.Sprintf("%s waits for the newer %s", describe(a), describe(other)))
			}
		}
	}
	return faults
}

// PlacedWhereAllowed finds allocations of the newest entry on nodes that take none, or not those of the job.
func PlacedWhereAllowed(v *View) (faults []string) {
	newest := v.Tx.Applied()
	for _, a := range v.Allocs {
		if a.CreateIndex != newest {
			continue
		}
		j := v.versionOf(a)
		n := v.Nodes[a.NodeID]
		allowed := n != nil && j != nil && (accepts(n) || v.lacksPlugin(n, j)) && suits(n, j, j.Group(a.TaskGroup))
		if !allowed {
			faults = append(faults, fmt.Sprintf("%s on node %s", describe(a), a.NodeID))
		}
	}
	return faults
}

// lacksPlugin reports whether a node has volumes of a plugin that a job runs on each node, or may have some
// because it is back after a loss.
func (v *View) lacksPlugin(n *structs.Node, j *structs.Job) bool {
	runs := func(plugin string) bool {
		return slices.ContainsFunc(j.TaskGroups, func(g *structs.TaskGroup) bool {
			return slices.Contains(g.Plugins(), plugin)
		})
	}
	isPlugin := slices.ContainsFunc(j.TaskGroups, func(g *structs.TaskGroup) bool {
		return len(g.Plugins()) > 0
	})
	return j.PerNode() && n.Status == structs.NodeReady &&
		(n.Returning && isPlugin || slices.ContainsFunc(v.Claims, func(c *structs.CSIClaim) bool {
			return c.NodeID == n.ID && c.State == structs.ClaimGranted && runs(c.PluginID)
		}))
}

// accepts reports whether a node takes allocations.
func accepts(n *structs.Node) bool {
	return n.Status == structs.NodeReady && n.DrainStrategy == nil &&
		n.SchedulingEligibility == structs.NodeEligible && !n.Returning
}

// suits reports whether a job may run on a node as it is, with whatever else runs there.
func suits(n *structs.Node, j *structs.Job, g *structs.TaskGroup) bool {
	inDatacenter := slices.ContainsFunc(j.Datacenters, func(glob string) bool {
		matches, _ := path.Match(glob, n.Datacenter)
		return matches
	})
	if !inDatacenter || j.NodePool != structs.AllNodePools && n.NodePool != j.NodePool {
		return false
	}
	for _, c := range slices.Concat(j.Constraints, g.Constraints) {
		if c.Operand == "=" && c.LTarget == "${meta.rack}" && n.Meta["rack"] != c.RTarget {
			return false
		}
	}
	for _, t := range g.Tasks {
		d := n.Drivers[t.Driver]
		if d == nil || !d.Healthy {
			return false
		}
	}
	for _, r := range g.Volumes {
		there := n.HostVolumes[r.Source]
		if r.Type == structs.VolumeTypeHost && (there == nil || there.ReadOnly && !r.ReadOnly) {
			return false
		}
	}
	return true
}

// VictimsOfLowPriority finds allocations that were displaced by one of a job that is not more important by
// structs.PreemptionGap.
func VictimsOfLowPriority(v *View) (faults []string) {
	newest := v.Tx.Applied()
	for _, a := range v.Allocs {
		if a.CreateIndex != newest {
			continue
		}
		for _, id := range a.PreemptedAllocations {
			victim := v.Allocs[id]
			if victim == nil {
				continue
			}
			by := v.priorityOf(a)
			of := v.priorityOf(victim)
			if by < of+structs.PreemptionGap || victim.NodeID != a.NodeID {
				faults = append(faults, fmt.Sprintf("%s of priority %d displaces %s of priority %d",
					describe(a), by, describe(victim), of))
			}
		}
	}
	return faults
}

// VolumesWherePluginsStay finds allocations of the newest entry on a node whose plugin, which they need for a
// volume, ends: the allocation that runs it was to end when their plan was made, and no other was there.
func VolumesWherePluginsStay(v *View) (faults []string) {
	newest := v.Tx.Applied()
	for _, a := range v.Allocs {
		e := state.Eval(v.Tx, a.EvalID)
		if a.CreateIndex != newest || e == nil {
			continue
		}
		for _, u := range a.CSIVolumes {
			volume := csi.Volume(v.Tx, a.Namespace, u.VolumeID)
			if volume == nil {
				continue
			}
			half := csi.Instance(v.Tx, volume.PluginID, structs.CSIKindNode, a.NodeID)
			if half != nil && half.ModifyIndex <= e.SnapshotIndex && !v.stays(half, e.SnapshotIndex) {
				faults = append(faults, fmt.Sprintf("%s on node %s, where allocation %s with plugin %s ends",
					describe(a), a.NodeID, structs.ShortID(half.AllocID), volume.PluginID))
			}
		}
	}
	return faults
}

// stays reports whether the node of an instance had an allocation with its plugin that was to run, at an
// index or later. It does not know instances without an allocation.
func (v *View) stays(i *structs.CSIPluginInstance, index uint64) bool {
	if i.AllocID == "" {
		return true
	}
	for _, a := range v.Allocs {
		if a.NodeID == i.NodeID && slices.Contains(a.CSIPlugins, i.PluginID) &&
			(!a.Terminal() || a.ModifyIndex > index) {
			return true
		}
	}
	return false
}

// PlansMade finds evaluations that have failed: the scheduler has returned errors, or it has panicked.
func PlansMade(v *View) (faults []string) {
	for _, e := range v.Failed {
		faults = append(faults, fmt.Sprintf("evaluation %s of job %s: %s", e.ID, e.JobID, e.StatusDescription))
	}
	return faults
}
