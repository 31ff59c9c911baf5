package csi

import (
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"

	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/storage"
)

// Plugin returns the plugin's row, nil if nothing refers to it.
func Plugin(tx mvcc.Reader, id string) *structs.CSIPluginRow {
	return schema.Plugins.Get(tx, id)
}

// Instance returns one half of a plugin on one node, nil if the node never reported it.
func Instance(
	tx mvcc.Reader,
	plugin string,
	kind structs.CSIKind,
	node string,
) *structs.CSIPluginInstance {
	return schema.Instances.Get(tx, plugin, string(kind), node)
}

// InstancesByPlugin yields a plugin's instances, controllers first, by node.
func InstancesByPlugin(tx mvcc.Reader, plugin string) iter.Seq[*structs.CSIPluginInstance] {
	return schema.Instances.Scan(tx, plugin)
}

// InstancesByPluginKind yields one half of a plugin, by node.
func InstancesByPluginKind(
	tx mvcc.Reader, plugin string, kind structs.CSIKind,
) iter.Seq[*structs.CSIPluginInstance] {
	return schema.Instances.Scan(tx, plugin, string(kind))
}

// InstancesByNode yields the instances that a node reported, by plugin and kind. The node's row names them,
// because an index by node would take as much memory as the rows.
func InstancesByNode(tx mvcc.Reader, node string) iter.Seq[*structs.CSIPluginInstance] {
	return func(yield func(*structs.CSIPluginInstance) bool) {
		n := schema.Nodes.Get(tx, node)
		if n == nil {
			return
		}

		for _, k := range n.CSIInstances() {
			// The row of a node is stored before its new instances: see state.NodeRegister.
			i := Instance(tx, k.PluginID, k.Kind, node)
			if i != nil && !yield(i) {
				return
			}
		}
	}
}

// PluginsFrom yields the plugins whose ID begins with prefix, from an ID on.
func PluginsFrom(tx *mvcc.ReadTx, prefix string, at mvcc.Page) iter.Seq[*structs.CSIPluginRow] {
	return schema.Plugins.Range(tx, mvcc.KeyPrefix(prefix), at)
}

// PluginStub returns the plugin as lists show it.
func PluginStub(tx mvcc.Reader, row *structs.CSIPluginRow) *structs.CSIPluginListStub {
	controllers, nodes := TalliesOf(tx, row.ID)
	return &structs.CSIPluginListStub{
		ID:                  row.ID,
		Provider:            row.Provider,
		ControllerRequired:  row.ControllerRequired,
		ControllersHealthy:  controllers.Healthy,
		ControllersExpected: controllers.Expected(),
		NodesHealthy:        nodes.Healthy,
		NodesExpected:       nodes.Expected(),
		Ending:              controllers.Ending + nodes.Ending,
		Indexes:             row.Indexes,
	}
}

// PluginReferences names one row of each kind that refers to a plugin, and returns "" if there is none.
func PluginReferences(tx mvcc.Reader, id string) string {
	var refs []string
	addRef := func(format string, args ...any) {
		refs = append(refs, fmt.Sprintf(format, args...))
	}

	if i := schema.Instances.First(tx, id); i != nil {
		addRef("its %s instance on node %s", i.Kind, i.NodeID)
	}

	if a := schema.AllocsByPlugin.First(tx, id, schema.LiveRow); a != nil {
		addRef("allocation %s of job %s", a.ID, a.JobID)
	}

	if v := schema.VolumesByPlugin.First(tx, id); v != nil {
		addRef("volume %s in namespace %s", v.ID, v.Namespace)
	}

	if a := schema.AttachmentsByExternal.First(tx, id); a != nil {
		addRef("the attachment of volume %s in namespace %s to node %s%s",
			a.VolumeID, a.Namespace, NodeName(tx, a.NodeID), Failing(a.LastError))
	}

	if s := schema.SnapshotsByPlugin.First(tx, id); s != nil {
		addRef("snapshot %s in namespace %s", s.Name, s.Namespace)
	}

	return strings.Join(refs, ", ")
}

// SameInstance reports whether a node's report equals the row, except for the time.
func SameInstance(row, report *structs.CSIPluginInstance) bool {
	info := row.CSIInfo
	if row.OtherDriver { // the node reports it healthy, with its own description
		info.Healthy = true
		info.HealthDescription = report.HealthDescription
	}

	// The reports are compared as values. Values behind pointers follow below.
	info.UpdateTime = report.UpdateTime
	info.NodeInfo = report.NodeInfo
	info.ControllerInfo = report.ControllerInfo
	return reflect.DeepEqual(&info, &report.CSIInfo) &&
		row.Kind == report.Kind &&
		row.NodeID == report.NodeID &&
		row.DownWithNode == report.DownWithNode &&
		sameNodeInfo(row.NodeInfo, report.NodeInfo) &&
		sameControllerInfo(row.ControllerInfo, report.ControllerInfo)
}

// sameNodeInfo reports whether two reports on a node half are equal. Each may be nil.
func sameNodeInfo(a, b *structs.CSINodeInfo) bool {
	if a == nil || b == nil {
		return a == b
	}
	c := *a
	c.AccessibleTopology = b.AccessibleTopology
	c.StorageHealth = b.StorageHealth
	return c == *b &&
		sameTopology(a.AccessibleTopology, b.AccessibleTopology) &&
		sameStorageHealth(a.StorageHealth, b.StorageHealth)
}

func sameStorageHealth(a, b *structs.CSIStorageHealth) bool {
	if a == nil || b == nil {
		return a == b
	}
	same := func(a, b *structs.CSIHealth) bool { return *a == *b }
	return a.Abnormal == b.Abnormal && slices.EqualFunc(a.Conditions, b.Conditions, same)
}

func sameTopology(a, b *structs.CSITopology) bool {
	if a == nil || b == nil {
		return a == b
	}
	return maps.Equal(a.Segments, b.Segments)
}

// sameControllerInfo reports whether two reports on a controller half are equal. Each may be nil.
func sameControllerInfo(a, b *structs.CSIControllerInfo) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// PluginConfig returns the settings of a plugin. It is never nil.
func PluginConfig(tx mvcc.Reader, id string) *storage.PluginSettings {
	stored := schema.PluginConfigs.Get(tx, id)
	if stored != nil {
		return stored
	}
	return &storage.PluginSettings{
		ID:         id,
		OnNodeLoss: structs.LossHold,
	}
}
