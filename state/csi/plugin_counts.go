package csi

import (
	"iter"

	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/structs"
)

// Tally holds the counters of one half of a plugin.
type Tally = structs.CSIPluginTally

// TallyOf returns the counters of one half of a plugin.
func TallyOf(tx mvcc.Reader, plugin string, kind structs.CSIKind) Tally {
	c := schema.PluginCounts.Get(tx, plugin, string(kind))
	if c != nil {
		return c.Tally
	}
	return Tally{}
}

// TallyInstance returns the counts of one instance, and zero for nil.
func TallyInstance(i *structs.CSIPluginInstance) Tally {
	if i == nil {
		return Tally{}
	}
	t := Tally{Instances: 1}
	if i.Healthy {
		t.Healthy = 1
	}
	if len(i.EndingCalls) > 0 {
		t.Ending = 1
	}
	return t
}

// TalliesOf returns the counters of both halves of a plugin.
func TalliesOf(tx mvcc.Reader, id string) (controllers, nodes Tally) {
	controllers = TallyOf(tx, id, structs.CSIKindController)
	nodes = TallyOf(tx, id, structs.CSIKindNode)
	return controllers, nodes
}

// HealthyInstance reports whether a half of the plugin is healthy anywhere.
func HealthyInstance(tx mvcc.Reader, plugin string, kind structs.CSIKind) bool {
	return TallyOf(tx, plugin, kind).Healthy > 0
}

// LacksController reports whether the plugin needs a controller and none is healthy.
func LacksController(tx mvcc.Reader, plugin string) bool {
	row := Plugin(tx, plugin)
	return row != nil && row.ControllerRequired &&
		!HealthyInstance(tx, plugin, structs.CSIKindController)
}

// AllocsByPlugin yields the allocations that run a plugin, ended ones first.
func AllocsByPlugin(tx mvcc.Reader, plugin string) iter.Seq[*structs.Allocation] {
	return schema.AllocsByPlugin.Scan(tx, plugin)
}

// VolumesByPlugin yields a plugin's volumes in all namespaces.
func VolumesByPlugin(tx mvcc.Reader, plugin string) iter.Seq[*structs.CSIVolume] {
	return schema.VolumesByPlugin.Scan(tx, plugin)
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
