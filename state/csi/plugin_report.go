package csi

import (
	"fmt"
	"slices"

	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/state/unblock"
	"berth/structs"
)

// A plugin's ID belongs to one driver: the Provider of the plugin's row. Volume IDs are unique only within a
// driver, so a call to another driver could reach another volume, or that driver could confirm the detach of
// an unknown volume. An instance of another driver is stored as unhealthy, which excludes it from every count
// and every choice. The ID is free again when no instance of the driver, no volume and no attachment is left.

// UpdateInstances puts the reported instances of a node and deletes the instances that it no longer has. old
// is the previous row of the node, or nil.
func UpdateInstances(tx *mvcc.WriteTx, old, n *structs.Node, p *structs.NodeUpdateCSIRequest) error {
	for _, i := range p.Upserts {
		if i == nil || i.PluginID == "" ||
			(i.Kind != structs.CSIKindController && i.Kind != structs.CSIKindNode) {
			return structs.Invalidf("a plugin instance needs a plugin ID and a kind, %s or %s",
				structs.CSIKindController, structs.CSIKindNode)
		}

		c := *i
		c.NodeID = n.ID
		c.DownWithNode = false // only the servers set it

		// The servers cannot call a node that is down, whatever it has reported.
		if n.Status == structs.NodeDown && c.Healthy {
			markInstanceDown(&c)
		}

		putInstance(tx, &c, p.Now)
	}

	if old == nil {
		old = &structs.Node{}
	}

	// A full report removes nothing by name: what old has and n has not is gone.
	removeInstances(tx, n, old.CSIInstances(), p.Now)
	removeInstances(tx, n, p.Removes, p.Now)
	return nil
}

// putInstance stores a report if it has changes, and unblocks the evaluations that wait for them.
func putInstance(tx *mvcc.WriteTx, i *structs.CSIPluginInstance, now int64) {
	old := Instance(tx, i.PluginID, i.Kind, i.NodeID)
	if old == nil || !SameInstance(old, i) {
		storeInstance(tx, old, i, now)
	}
}

// storeInstance stores a report in the place of old, which may be nil.
func storeInstance(tx *mvcc.WriteTx, old, i *structs.CSIPluginInstance, now int64) {
	known := EnsurePlugin(tx, i.PluginID)
	p := checkDriver(tx, known, i)
	schema.Instances.Put(tx, i)
	RecountHalf(tx, i.Key(), TallyInstance(old), TallyInstance(i))

	differs := old == nil ||
		!sameNodeInfo(old.NodeInfo, i.NodeInfo) ||
		!sameControllerInfo(old.ControllerInfo, i.ControllerInfo)

	// New properties of the plugin concern the claims on all nodes, another report only those on this one.
	if i.Healthy && learnPlugin(tx, p, i, now) {
		grantPlugin(tx, i.PluginID, now)
	} else if differs && i.Kind == structs.CSIKindNode {
		grantOnNode(tx, i.PluginID, i.NodeID, now)
	}

	if i.Healthy && (differs || !old.Healthy) {
		unblock.Key(tx, structs.WakePlugin(i.PluginID))
	}

	// The other instances change last, because this function stores them, too.
	switch {
	// Its driver has taken over the ID, so the instances of this driver on other nodes may be used.
	case p != known:
		restoreInstances(tx, i.PluginID, now)
	// It may have been the last instance of its former driver.
	case old != nil && old.Provider != i.Provider:
		rebindDriver(tx, i.PluginID, now)
	}
}

// checkDriver completes a report that is about to be stored. It returns the plugin's row, renewed when the
// report is healthy and its driver takes over an ID that is free.
func checkDriver(
	tx *mvcc.WriteTx,
	p *structs.CSIPluginRow,
	i *structs.CSIPluginInstance,
) *structs.CSIPluginRow {
	i.OtherDriver = false

	// Nothing uses an unhealthy instance, so it need not have the driver of the plugin.
	if !i.Healthy || i.IsDriver(p.Provider) {
		return p
	}

	if holdsVolumes(tx, p.ID) || reportedDriver(tx, p, i) {
		i.Healthy = false
		i.OtherDriver = true
		i.HealthDescription = fmt.Sprintf("not used: its driver is %q, plugin %q belongs to driver %q",
			i.Provider, p.ID, p.Provider)
		return p
	}

	p = &structs.CSIPluginRow{ID: p.ID}
	schema.Plugins.Put(tx, p)
	return p
}

// holdsVolumes reports whether a volume or an attachment ties the plugin's ID to its driver.
func holdsVolumes(tx mvcc.Reader, id string) bool {
	return schema.VolumesByPlugin.First(tx, id) != nil ||
		schema.AttachmentsByExternal.First(tx, id) != nil
}

// reportedDriver reports whether a node has an instance of the plugin's driver, other than the one given.
func reportedDriver(tx mvcc.Reader, p *structs.CSIPluginRow, other *structs.CSIPluginInstance) bool {
	for i := range InstancesByPlugin(tx, p.ID) {
		same := other != nil && i.NodeID == other.NodeID &&
			i.Kind == other.Kind
		if i.Provider == p.Provider && !same {
			return true
		}
	}
	return false
}

// learnPlugin keeps the properties that a healthy instance reports and that must outlive it in the plugin's
// row, and reports whether the row changed.
func learnPlugin(
	tx *mvcc.WriteTx,
	old *structs.CSIPluginRow,
	i *structs.CSIPluginInstance,
	now int64,
) bool {
	learned := *old
	learned.Known = true
	learned.ControllerRequired = old.ControllerRequired || i.RequiresControllerPlugin
	if i.Provider != "" &&
		(old.Provider == "" || old.Provider == i.Provider) {
		learned.Provider = i.Provider
		learned.Version = i.ProviderVersion
	}

	// From now on claims can be granted: see blockOf.
	if i.Kind == structs.CSIKindController {
		learned.ControllerSeen = true
	}

	if i.Kind == structs.CSIKindController &&
		i.ControllerInfo != nil {
		learned.SupportsAttachDetach = i.ControllerInfo.SupportsAttachDetach
		learned.SupportsReadOnly = i.ControllerInfo.SupportsReadOnlyAttach
		learned.ExpandsOffline = i.ExpandsOffline
	}

	if learned == *old {
		return false
	}

	p := learned.Copy()
	schema.Plugins.Put(tx, p)

	// Claims that were granted before have no attachments yet.
	if p.SupportsAttachDetach && !old.SupportsAttachDetach {
		attachGranted(tx, p.ID, now)
	}

	return true
}

// removeInstances deletes the instances of n that its row does not name.
func removeInstances(tx *mvcc.WriteTx, n *structs.Node, keys []structs.CSIInstanceKey, now int64) {
	for _, k := range keys {
		_, has := slices.BinarySearchFunc(n.CSIInstances(), k, structs.CSIInstanceKey.Compare)
		if has {
			continue
		}

		i := Instance(tx, k.PluginID, k.Kind, n.ID)
		if i != nil {
			RemoveInstance(tx, i, now)
		}
	}
}

// RemoveInstance deletes an instance that its node no longer has.
func RemoveInstance(tx *mvcc.WriteTx, i *structs.CSIPluginInstance, now int64) {
	schema.Instances.Delete(tx, i)
	RecountHalf(tx, i.Key(), TallyInstance(i), Tally{})
	DropUnusedPlugin(tx, i.PluginID)
	rebindDriver(tx, i.PluginID, now)
}

// rebindDriver gives a plugin's ID to another driver if no instance of the present driver is left. The other
// driver names the present one as its former name. Without volumes and attachments it may be any driver. now
// is UnixNano.
func rebindDriver(tx *mvcc.WriteTx, id string, now int64) {
	p := Plugin(tx, id)
	if p == nil || p.Provider == "" ||
		reportedDriver(tx, p, nil) {
		return
	}

	successor := successorOf(tx, p)

	// The ID stays with its driver, which may come back.
	if successor == nil {
		return
	}

	// The properties of a driver under its new name are known. Another driver begins without any.
	next := &structs.CSIPluginRow{ID: p.ID}
	if successor.FormerProvider == p.Provider {
		next = p.Copy()
	}

	next.Provider = successor.Provider
	next.Version = successor.ProviderVersion
	schema.Plugins.Put(tx, next)
	restoreInstances(tx, id, now)
}

// successorOf returns the instance whose driver gets the plugin's ID next, nil for none.
func successorOf(tx mvcc.Reader, p *structs.CSIPluginRow) *structs.CSIPluginInstance {
	free := !holdsVolumes(tx, p.ID)
	for i := range InstancesByPlugin(tx, p.ID) {
		// With OtherDriver its node has reported it healthy: see checkDriver.
		usable := i.Provider != "" && (i.Healthy || i.OtherDriver)
		if usable &&
			(free || i.FormerProvider == p.Provider) {
			return i
		}
	}
	return nil
}

// restoreInstances stores the reports of other drivers again as their nodes made them.
func restoreInstances(tx *mvcc.WriteTx, id string, now int64) {
	for _, old := range slices.Collect(InstancesByPlugin(tx, id)) {
		if !old.OtherDriver {
			continue
		}

		i := *old
		i.Healthy = true
		i.HealthDescription = ""

		// Its node has reported it healthy, and may have gone down since.
		if schema.Nodes.Get(tx, i.NodeID).Lost() {
			markInstanceDown(&i)
		}

		storeInstance(tx, old, &i, now)
	}
}

// markInstanceDown makes a healthy instance one of a node that is down.
func markInstanceDown(i *structs.CSIPluginInstance) {
	i.Healthy = false
	i.HealthDescription = schema.NodeIsDown
	i.DownWithNode = true
}

// DownInstances makes the healthy instances of a node unhealthy, because the node is down.
func DownInstances(tx *mvcc.WriteTx, node string, now int64) {
	for i := range InstancesByNode(tx, node) {
		// One that is unhealthy for another reason must not be revived with the node.
		if i.Healthy {
			c := *i
			markInstanceDown(&c)
			putInstance(tx, &c, now)
		}
	}
}

// ReviveInstances makes the instances healthy again that DownInstances has changed.
func ReviveInstances(tx *mvcc.WriteTx, node string, now int64) {
	for i := range InstancesByNode(tx, node) {
		if i.DownWithNode {
			c := *i
			c.Healthy = true
			c.HealthDescription = ""
			c.DownWithNode = false
			putInstance(tx, &c, now)
		}
	}
}
