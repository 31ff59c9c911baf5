package state

import "berth/structs"

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
func recountHalf(tx *WriteTx, plugin string, kind structs.CSIKind, was, is tally) {
	if was == is {
		return
	}
	kept := tallyOf(tx, plugin, kind)
	c := &structs.CSIPluginCountRow{
		PluginID: plugin,
		Kind:     kind,
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

// recountAlloc updates the counts of the plugins that an allocation ran and of those that it runs now. old
// may be nil.
func recountAlloc(tx *WriteTx, old, now *structs.Allocation) {
	if old != nil && old.JobVersion == now.JobVersion &&
		old.ClientTerminal() == now.ClientTerminal() {
		return
	}
	none := tally{}
	one := tally{Runs: 1}
	eachRun(tx, old, func(plugin string, kind structs.CSIKind) {
		recountHalf(tx, plugin, kind, one, none)
	})
	eachRun(tx, now, func(plugin string, kind structs.CSIKind) {
		recountHalf(tx, plugin, kind, none, one)
	})
}

// eachRun calls fn for each half of a plugin that the allocation runs, unless it is nil or has ended.
func eachRun(
	tx Reader,
	a *structs.Allocation,
	fn func(plugin string, kind structs.CSIKind),
) {
	if a == nil || a.ClientTerminal() {
		return
	}
	for _, plugin := range a.CSIPlugins {
		for _, kind := range kindsOf(tx, a, plugin) {
			fn(plugin, kind)
		}
	}
}

// kindsOf lists the halves of the plugin that an allocation runs.
func kindsOf(tx Reader, a *structs.Allocation, plugin string) []structs.CSIKind {
	var kinds []structs.CSIKind
	group := groupOf(tx, a)
	if group == nil {
		return nil
	}
	for _, t := range group.Tasks {
		if t.CSIPluginConfig != nil &&
			t.CSIPluginConfig.ID == plugin {
			kinds = append(kinds, t.CSIPluginConfig.Kinds()...)
		}
	}
	return kinds
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
