package state

import (
	"iter"
	"slices"

	"berth/structs"
)

// tally holds the counters of one half of a plugin.
type tally = structs.CSIPluginTally

func tallyOf(tx Reader, plugin string, kind structs.CSIKind) tally {
	c := counts.Get(tx, plugin, string(kind))
	if c != nil {
		return c.Tally
	}
	return tally{}
}

// recountHalf replaces the counts was of one instance or run of a half by the counts is.
func recountHalf(tx *WriteTx, half structs.CSIInstanceKey, was, is tally) {
	if was == is {
		return
	}
	kept := tallyOf(tx, half.PluginID, half.Kind)
	c := &structs.CSIPluginCountRow{
		PluginID: half.PluginID,
		Kind:     half.Kind,
		Tally:    kept.Minus(was).Plus(is),
	}
	if c.Tally == (tally{}) {
		counts.Delete(tx, c)
		return
	}
	counts.Put(tx, c)
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

// recountAlloc updates the counts of the plugins that an allocation ran or runs now. old may be nil.
func recountAlloc(tx *WriteTx, old, now *structs.Allocation) {
	if old != nil && old.JobVersion == now.JobVersion &&
		old.ClientTerminal() == now.ClientTerminal() {
		return
	}
	none := tally{}
	one := tally{Runs: 1}
	for _, half := range PluginHalves(tx, old) {
		recountHalf(tx, half, one, none)
	}
	for _, half := range PluginHalves(tx, now) {
		recountHalf(tx, half, none, one)
	}
}

// PluginHalves lists the halves of plugins that the allocation runs, none if it is nil or has ended.
func PluginHalves(tx Reader, a *structs.Allocation) []structs.CSIInstanceKey {
	if a == nil || a.ClientTerminal() || len(a.CSIPlugins) == 0 {
		return nil
	}

	group := groupOf(tx, a)
	if group == nil {
		return nil
	}

	var halves []structs.CSIInstanceKey
	for _, t := range group.Tasks {
		p := t.CSIPluginConfig
		if p == nil || !slices.Contains(a.CSIPlugins, p.ID) {
			continue
		}

		for _, kind := range p.Kinds() {
			halves = append(halves, structs.CSIInstanceKey{PluginID: p.ID, Kind: kind})
		}
	}

	return halves
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
	return allocsByPlugin.Scan(tx, plugin)
}

// VolumesByPlugin yields a plugin's volumes in all namespaces.
func VolumesByPlugin(tx Reader, plugin string) iter.Seq[*structs.CSIVolume] {
	return volumesByPlugin.Scan(tx, plugin)
}
