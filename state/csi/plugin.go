package csi

import (
	"slices"

	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/state/unblock"
	"berth/structs"
)

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

	// The other instances change after this one is stored, because they are stored by this function too.
	switch {
	// Its driver has taken over the ID, so the instances of this driver on other nodes may be used.
	case p != known:
		defer restoreInstances(tx, i.PluginID, now)
	// It may have been the last instance of its former driver.
	case old != nil && old.Provider != i.Provider:
		defer rebindDriver(tx, i.PluginID, now)
	}

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
}

// RemoveInstance deletes an instance that its node no longer has.
func RemoveInstance(tx *mvcc.WriteTx, i *structs.CSIPluginInstance, now int64) {
	schema.Instances.Delete(tx, i)
	RecountHalf(tx, i.Key(), TallyInstance(i), Tally{})
	DropUnusedPlugin(tx, i.PluginID)
	rebindDriver(tx, i.PluginID, now)
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

// EnsurePlugin returns the plugin's row. It puts the row for the first reference.
func EnsurePlugin(tx *mvcc.WriteTx, id string) *structs.CSIPluginRow {
	p := Plugin(tx, id)
	if p == nil {
		p = &structs.CSIPluginRow{ID: id}
		schema.Plugins.Put(tx, p)
	}
	return p
}

// DropUnusedPlugin deletes the plugin's row after its last reference.
func DropUnusedPlugin(tx *mvcc.WriteTx, id string) {
	p := Plugin(tx, id)
	if p == nil || PluginReferences(tx, id) != "" {
		return
	}
	schema.Plugins.Delete(tx, p)
	forgetSpace(tx, id)
	forgetDrifts(tx, id)
	ForgetHealth(tx, id)
	unblock.Delete(tx, structs.WakePlugin(id))
}

// PluginDelete succeeds if the plugin is gone. The plugin row is deleted with its last reference.
// PluginDelete rejects a plugin with references and names them.
func PluginDelete(tx *mvcc.WriteTx, p *structs.CSIPluginDeleteRequest) error {
	refs := PluginReferences(tx, p.ID)

	if refs != "" {
		return structs.Preconditionf("plugin %q is in use by %s", p.ID, refs)
	}
	return nil
}

// RecountHalf replaces the counts was of one instance or run of a half by the counts is.
func RecountHalf(tx *mvcc.WriteTx, half structs.CSIInstanceKey, was, is Tally) {
	if was == is {
		return
	}

	kept := TallyOf(tx, half.PluginID, half.Kind)
	c := &structs.CSIPluginCountRow{
		PluginID: half.PluginID,
		Kind:     half.Kind,
		Tally:    kept.Minus(was).Plus(is),
	}

	// A half without instances and runs needs no row, and so a plugin that is gone leaves none.
	if c.Tally == (Tally{}) {
		schema.PluginCounts.Delete(tx, c)
		return
	}

	schema.PluginCounts.Put(tx, c)
}
