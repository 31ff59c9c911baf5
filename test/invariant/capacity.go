package invariant

import (
	"fmt"
	"slices"
	"strings"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
)

// versionOf returns the version of the job that an allocation has, nil if it is gone.
func (v *View) versionOf(a *structs.Allocation) *structs.Job { return state.JobOf(v.Tx, a) }

func (v *View) priorityOf(a *structs.Allocation) int {
	j := state.Job(v.Tx, a.Namespace, a.JobID)
	if j == nil {
		j = v.versionOf(a)
	}
	if j == nil {
		return structs.JobDefaultPriority
	}
	return j.Priority
}

// want is one allocation that could be placed.
type want struct {
	job   *structs.Job
	group *structs.TaskGroup
	index int
}

// nodeThatFits returns a node on which the allocation fits, "" if there is none.
func (v *View) nodeThatFits(w want) string {
	for id := range v.Nodes {
		if v.fitsOn(v.Nodes[id], w) {
			return id
		}
	}
	return ""
}

// fitsOn reports whether an allocation fits on a node beside all that has not ended there, and its quota has
// one more left. It knows only the
// constraints below. With any other it reports false.
func (v *View) fitsOn(n *structs.Node, w want) bool {
	return accepts(n) && suits(n, w.job, w.group) &&
		v.distinct(n, w) && v.resourcesLeft(n, w.group) && v.devicesLeft(n, w.group) &&
		v.portsLeft(n, w.group) && v.hostVolumesLeft(n, w.group) && v.volumesLeft(n, w) && v.quotaLeft(w)
}

// distinct checks distinct_hosts and distinct_property.
func (v *View) distinct(n *structs.Node, w want) bool {
	for _, c := range slices.Concat(w.job.Constraints, w.group.Constraints) {
		var limit int
		same := func(other *structs.Node) bool { return other.ID == n.ID }
		switch c.Operand {
		case "=":
			continue
		case structs.ConstraintDistinctHosts:
			limit = 1
		case structs.ConstraintDistinctProperty:
			limit = 1
			if c.RTarget != "" {
				_, _ = fmt.Sscan(c.RTarget, &limit)
			}
			same = func(other *structs.Node) bool { return other.Meta["rack"] == n.Meta["rack"] }
		default:
			return false
		}
		ofJob := slices.Contains(w.job.Constraints, c)
		for _, a := range v.ByJob[keyOf(w.job)] {
			counts := !a.Terminal() && (ofJob || a.TaskGroup == w.group.Name)
			if other := v.Nodes[a.NodeID]; counts && other != nil && same(other) {
				limit--
			}
		}
		if limit <= 0 {
			return false
		}
	}
	return true
}

func (v *View) resourcesLeft(n *structs.Node, g *structs.TaskGroup) bool {
	left := n.Available()
	take := func(r *structs.Resources) {
		left.CPU -= r.CPU
		left.MemoryMB -= r.MemoryMB
		left.DiskMB -= r.DiskMB
	}
	for _, a := range v.OnNode[n.ID] {
		take(a.Resources)
	}
	for _, t := range g.Tasks {
		take(t.Resources)
	}
	take(&structs.Resources{DiskMB: g.EphemeralDisk.SizeMB})
	return left.CPU >= 0 && left.MemoryMB >= 0 && left.DiskMB >= 0
}

// devicesLeft checks at most one demand, for a whole group of devices by its name.
func (v *View) devicesLeft(n *structs.Node, g *structs.TaskGroup) bool {
	var demand *structs.RequestedDevice
	for _, t := range g.Tasks {
		for _, d := range t.Resources.Devices {
			if demand != nil || len(d.Constraints) > 0 {
				return false
			}
			demand = d
		}
	}
	if demand == nil {
		return true
	}
	for _, have := range n.NodeResources.Devices {
		names := []string{have.Type, have.Vendor + "/" + have.Type, have.Vendor + "/" + have.Type + "/" + have.Name}
		if !slices.Contains(names, demand.Name) {
			continue
		}
		free := 0
		for _, d := range have.Instances {
			if d.Healthy && !v.deviceTaken(n.ID, have.ID(), d.ID) {
				free++
			}
		}
		if uint64(free) >= demand.Count {
			return true
		}
	}
	return false
}

func (v *View) deviceTaken(node, group, id string) bool {
	for _, a := range v.OnNode[node] {
		for _, groups := range a.Devices {
			for _, d := range groups {
				if d.ID() == group && slices.Contains(d.DeviceIDs, id) {
					return true
				}
			}
		}
	}
	return false
}

// portsLeft knows nodes with one address.
func (v *View) portsLeft(n *structs.Node, g *structs.TaskGroup) bool {
	used := map[int]bool{}
	for _, a := range v.OnNode[n.ID] {
		for _, p := range a.Ports {
			used[p.Value] = true
		}
	}
	dynamic := 0
	for _, network := range g.Networks {
		dynamic += len(network.DynamicPorts)
		for _, p := range network.ReservedPorts {
			if used[p.Value] {
				return false
			}
			used[p.Value] = true
		}
	}
	for port := n.NodeResources.MinDynamicPort; port <= n.NodeResources.MaxDynamicPort; port++ {
		if !used[port] {
			dynamic--
		}
	}
	return dynamic <= 0 || len(g.Networks) == 0
}

func (v *View) hostVolumesLeft(n *structs.Node, g *structs.TaskGroup) bool {
	for _, r := range g.Volumes {
		if r.Type != structs.VolumeTypeHost || r.ReadOnly {
			continue
		}
		for _, a := range v.OnNode[n.ID] {
			for _, other := range v.groupOf(a).Volumes {
				if other.Type == structs.VolumeTypeHost && other.Source == r.Source && !other.ReadOnly &&
					(writesAlone(r) || writesAlone(other)) {
					return false
				}
			}
		}
	}
	return true
}

// volumesLeft counts a volume as taken by each claim, each attachment to another node and each allocation
// that is to use it. A job that is tried again later may have missed only the next instance of a plugin.
func (v *View) volumesLeft(n *structs.Node, w want) bool {
	if len(w.group.CSIUses(0, "")) > 0 && v.triedLater(keyOf(w.job)) {
		return false
	}
	for _, r := range w.group.Volumes {
		if !r.NeedsClaim() {
			continue
		}
		c := r.Claim(w.job.Namespace, w.index, "")
		c.NodeID = n.ID
		row := csi.Volume(v.Tx, c.Namespace, c.VolumeID)
		if row == nil || row.State != structs.VolumeReady || len(row.Topologies) > 0 || v.claimed(c) ||
			!v.pluginReady(n, row.PluginID) {
			return false
		}
		for at := range csi.AttachmentsByVolume(v.Tx, c.Namespace, c.VolumeID) {
			if at.NodeID != n.ID || at.State == structs.AttachmentDetaching {
				return false
			}
		}
	}
	return true
}

// triedLater reports whether a job has an evaluation that waits for its time.
func (v *View) triedLater(key structs.JobKey) bool {
	return slices.ContainsFunc(v.Open[key], func(e *structs.Evaluation) bool {
		return e.Status == structs.EvalPending && e.WaitUntil > 0
	})
}

// claimed reports whether a claim excludes this one, or an allocation that is to make one.
func (v *View) claimed(c *structs.CSIClaim) bool {
	for _, other := range v.Claims {
		if sameVolume(c, other) && excludes(c, other) {
			return true
		}
	}
	for _, a := range v.Allocs {
		for _, u := range a.CSIVolumes {
			other := &structs.CSIClaim{
				NodeID:         a.NodeID,
				AccessMode:     u.AccessMode,
				AttachmentMode: u.AttachmentMode,
				Mode:           u.Mode,
			}
			if !a.Terminal() && a.Namespace == c.Namespace && u.VolumeID == c.VolumeID && excludes(c, other) {
				return true
			}
		}
	}
	return false
}

// pluginReady knows plugins without a limit of volumes.
func (v *View) pluginReady(n *structs.Node, plugin string) bool {
	half := csi.Instance(v.Tx, plugin, structs.CSIKindNode, n.ID)
	if half == nil || !half.Healthy || half.NodeInfo == nil || half.NodeInfo.MaxVolumes > 0 ||
		!v.stays(half, v.Tx.Applied()) {
		return false
	}
	return !half.RequiresControllerPlugin || slices.ContainsFunc(v.nodeIDs(), func(id string) bool {
		c := csi.Instance(v.Tx, plugin, structs.CSIKindController, id)
		return c != nil && c.Healthy
	})
}

func (v *View) nodeIDs() (ids []string) {
	for id := range v.Nodes {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, strings.Compare)
	return ids
}
