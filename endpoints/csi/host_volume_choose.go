package csi

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"berth/scheduler/match"
	"berth/state"
	"berth/state/csi"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/storage"
)

// chooseHostNode returns the row of a volume on its node: the one that it names, or the node with the fewest
// host volumes of the plugin among the nodes that can have it. Of equal ones the first by ID counts.
func chooseHostNode(tx *state.ReadTx, v storage.DynamicHostVolume) (*structs.CSIVolume, error) {
	if v.ID != "" {
		return chooseHostNodeAgain(tx, v)
	}

	var err error
	v.PluginID, err = hostPluginOf(tx, v.PluginID)
	if err != nil {
		return nil, err
	}

	c := hostChoice{
		volume:  v,
		matches: match.CompileConstraints(v.Constraints),
	}
	if v.NodeID != "" {
		return c.onNode(tx)
	}

	best := c.best(tx)
	if best == nil {
		return nil, structs.Preconditionf("host volume %q: no node of the node pool %q can have it: %s",
			v.Name, v.NodePool, c.reasons())
	}
	return c.row(tx, best), nil
}

// chooseHostNodeAgain returns the row for a volume that exists, with the wanted size.
func chooseHostNodeAgain(tx *state.ReadTx, v storage.DynamicHostVolume) (*structs.CSIVolume, error) {
	old, err := findHostVolume(tx, v.Namespace, v.ID)
	if err != nil {
		return nil, err
	}
	if v.Name != old.Host.Name || v.NodeID != "" && v.NodeID != old.Host.NodeID {
		return nil, structs.Conflictf("host volume %q has the name %q and is on node %s, which cannot change; "+
			"without an id another volume is created", v.ID, old.Host.Name, structs.ShortID(old.Host.NodeID))
	}

	v.PluginID, err = hostPluginOf(tx, v.PluginID)
	if err != nil {
		return nil, err
	}
	v.NodeID = old.Host.NodeID
	row := v.Row(nil)
	row.RequestedTopologies = old.RequestedTopologies
	return row, nil
}

// hostPluginOf returns the plugin of the driver of host volumes with an ID. Without one, and for the ID that
// the dialect has for directories, it is the only plugin of the driver.
func hostPluginOf(tx *state.ReadTx, id string) (string, error) {
	named := id != "" && id != storage.HostVolumeBuiltIn
	var found []string
	for p := range schema.Plugins.Scan(tx) {
		if p.Provider != storage.HostVolumeDriver {
			continue
		}
		if named && p.ID == id {
			return id, nil
		}
		found = append(found, p.ID)
	}

	switch {
	case len(found) == 0:
		return "", structs.Preconditionf("plugin_id: no CSI plugin of the driver %s exists, which serves host "+
			"volumes; run its job first", storage.HostVolumeDriver)
	case named:
		return "", structs.Preconditionf("plugin_id: CSI plugin %q is none of the driver %s, which serves host "+
			"volumes; expected %s, or %s", id, storage.HostVolumeDriver, storage.HostVolumeBuiltIn,
			strings.Join(found, ", "))
	case len(found) > 1:
		return "", structs.Preconditionf("plugin_id: several CSI plugins are of the driver %s, which serves host "+
			"volumes; name one of %s", storage.HostVolumeDriver, strings.Join(found, ", "))
	}
	return found[0], nil
}

// hostChoice finds the node of a volume.
type hostChoice struct {
	volume  storage.DynamicHostVolume
	matches []match.Constraint
	counts  map[string]int // of the rejected nodes, by reason
}

// onNode returns the row on the node that the volume names.
func (c *hostChoice) onNode(tx *state.ReadTx) (*structs.CSIVolume, error) {
	n := state.Node(tx, c.volume.NodeID)
	if n == nil {
		return nil, structs.NotFoundf("host volume %q: node_id: no node %q", c.volume.Name, c.volume.NodeID)
	}

	// The request may repeat an earlier one.
	id := structs.HostVolumeID(c.volume.Namespace, n.ID, c.volume.Name)
	known := csi.Volume(tx, c.volume.Namespace, id) != nil
	why := c.rejection(tx, n)
	if why != "" && !known {
		return nil, structs.Preconditionf("host volume %q: node %s cannot have it: %s",
			c.volume.Name, structs.ShortID(n.ID), why)
	}
	return c.row(tx, n), nil
}

// best returns the node for the volume, nil if none can have it.
func (c *hostChoice) best(tx *state.ReadTx) *structs.Node {
	volumes := map[string]int{} // of the plugin, by node
	for v := range schema.VolumesByPlugin.Scan(tx, c.volume.PluginID) {
		if v.Host != nil {
			volumes[v.Host.NodeID]++
		}
	}

	var fit []*structs.Node
	c.counts = map[string]int{}
	for n := range schema.Nodes.Scan(tx) {
		why := c.rejection(tx, n)
		if why == "" && csi.Volume(tx, c.volume.Namespace,
			structs.HostVolumeID(c.volume.Namespace, n.ID, c.volume.Name)) != nil {
			why = "it has a host volume of that name"
		}
		if why == "" {
			fit = append(fit, n)
			continue
		}
		c.counts[why]++
	}
	if len(fit) == 0 {
		return nil
	}
	return slices.MinFunc(fit, func(a, b *structs.Node) int {
		return cmp.Or(cmp.Compare(volumes[a.ID], volumes[b.ID]), cmp.Compare(a.ID, b.ID))
	})
}

// rejection returns why a node cannot have the volume, "" if it can.
func (c *hostChoice) rejection(tx *state.ReadTx, n *structs.Node) string {
	pool := cmp.Or(n.NodePool, structs.DefaultNodePool)
	wanted := c.volume.NodePool
	switch {
	case wanted != "" && wanted != structs.AllNodePools && wanted != pool:
		return "it is in another node pool"
	case !n.Ready():
		return "it is not ready and eligible"
	case slices.ContainsFunc(c.matches, func(m match.Constraint) bool { return !m.MetBy(n) }):
		return "it does not meet the constraints"
	}

	for _, kind := range []structs.CSIKind{structs.CSIKindController, structs.CSIKindNode} {
		half := csi.Instance(tx, c.volume.PluginID, kind, n.ID)
		if half == nil || !half.Healthy {
			return fmt.Sprintf("it has no healthy %s of CSI plugin %s", kind, c.volume.PluginID)
		}
	}
	if c.place(tx, n) == nil {
		return fmt.Sprintf("CSI plugin %s has not told the topology of the node", c.volume.PluginID)
	}
	return ""
}

// place returns the topology of a node for the plugin, nil for none. The driver of host volumes names each
// node in it, so a volume that is reachable from there is on the node.
func (c *hostChoice) place(tx *state.ReadTx, n *structs.Node) *structs.CSITopology {
	half := csi.Instance(tx, c.volume.PluginID, structs.CSIKindNode, n.ID)
	place := half.NodeReport().AccessibleTopology
	if place == nil || len(place.Segments) == 0 {
		return nil
	}
	return place
}

func (c *hostChoice) row(tx *state.ReadTx, n *structs.Node) *structs.CSIVolume {
	v := c.volume
	v.NodeID = n.ID
	v.NodePool = cmp.Or(n.NodePool, structs.DefaultNodePool)
	return v.Row(c.place(tx, n))
}

// reasons says why no node can have the volume.
func (c *hostChoice) reasons() string {
	if len(c.counts) == 0 {
		return "the cluster has no node"
	}
	var parts []string
	for why, n := range c.counts {
		parts = append(parts, structs.Counted(n, "node")+": "+why)
	}
	slices.Sort(parts)
	return strings.Join(parts, "; ")
}

// blockOfRow returns why no allocation can use a volume now, "" if one can.
func blockOfRow(tx *state.ReadTx, row *structs.CSIVolume) string {
	n := state.Node(tx, row.Host.NodeID)
	half := csi.Instance(tx, row.PluginID, structs.CSIKindNode, row.Host.NodeID)
	switch {
	case n == nil:
		return "its node is gone"
	case n.Status != structs.NodeReady:
		return "its node is " + n.Status
	case half == nil || !half.Healthy:
		return fmt.Sprintf("CSI plugin %s is not healthy on its node", row.PluginID)
	}
	return csi.Unschedulable(tx, row)
}
