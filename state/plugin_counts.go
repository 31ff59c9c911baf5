package state

import (
	"iter"

	"berth/state/schema"
	"berth/structs"
)

// tally holds the counters of one half of a plugin.
type tally = structs.CSIPluginTally

// tallyOf returns the counters of one half of a plugin.
func tallyOf(tx Reader, plugin string, kind structs.CSIKind) tally {
	c := schema.PluginCounts.Get(tx, plugin, string(kind))
	if c != nil {
		return c.Tally
	}
	return tally{}
}

// tallyInstance returns the counts of one instance, and zero for nil.
func tallyInstance(i *structs.CSIPluginInstance) tally {
	switch {
	case i == nil:
		return tally{}
	case i.Healthy:
		return tally{Instances: 1, Healthy: 1}
	}
	return tally{Instances: 1}
}

// talliesOf returns the counters of both halves of a plugin.
func talliesOf(tx Reader, id string) (controllers, nodes tally) {
	controllers = tallyOf(tx, id, structs.CSIKindController)
	nodes = tallyOf(tx, id, structs.CSIKindNode)
	return controllers, nodes
}

// HealthyInstance reports whether a half of the plugin is healthy anywhere.
func HealthyInstance(tx Reader, plugin string, kind structs.CSIKind) bool {
	return tallyOf(tx, plugin, kind).Healthy > 0
}

// AllocsByPlugin yields the allocations that run a plugin, those that ended first.
func AllocsByPlugin(tx Reader, plugin string) iter.Seq[*structs.Allocation] {
	return schema.AllocsByPlugin.Scan(tx, plugin)
}

// VolumesByPlugin yields a plugin's volumes in all namespaces.
func VolumesByPlugin(tx Reader, plugin string) iter.Seq[*structs.CSIVolume] {
	return schema.VolumesByPlugin.Scan(tx, plugin)
}
