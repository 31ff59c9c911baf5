package state

import "berth/internal/mvcc"

import "berth/structs"

// counts hold how many instances each half of each plugin has, so that nobody counts a fleet to show one
// volume. Whatever puts or deletes an instance, or an allocation that runs a plugin, keeps them.
var counts = mvcc.NewTable("csi_plugin_counts", func(c *pluginCount) mvcc.Key { return mvcc.KeyOf(c.PluginID, string(c.Kind)) })

// pluginCount is the row of one half of one plugin. It is there while a number in it is not 0.
type pluginCount struct {
	PluginID string
	Kind     structs.CSIKind
	Tally    tally
	structs.Indexes
}

type tally struct {
	Instances int // reported by nodes
	Healthy   int // of those
	Runs      int // allocations that run this half and have not ended
}

func (t tally) plus(o tally) tally {
	return tally{t.Instances + o.Instances, t.Healthy + o.Healthy, t.Runs + o.Runs}
}

func (t tally) minus(o tally) tally {
	return tally{t.Instances - o.Instances, t.Healthy - o.Healthy, t.Runs - o.Runs}
}

// expected is how many instances there should be: the allocations that run the half, where they are more
// than have reported.
func (t tally) expected() int { return max(t.Instances, t.Runs) }

func tallyOf(tx *ReadTx, plugin string, kind structs.CSIKind) tally {
	if c := counts.Get(tx, plugin, string(kind)); c != nil {
		return c.Tally
	}
	return tally{}
}

// recount changes a half's numbers from what was to what is.
func recount(tx *WriteTx, plugin string, kind structs.CSIKind, was, is tally) {
	if was == is {
		return
	}
	c := &pluginCount{PluginID: plugin, Kind: kind, Tally: tallyOf(tx.ReadTx, plugin, kind).minus(was).plus(is)}
	if c.Tally == (tally{}) {
		counts.Delete(tx, c)
		return
	}
	counts.Put(tx, c)
}

// tallyInstance is what an instance, nil for none, counts for.
func tallyInstance(i *structs.CSIPluginInstance) tally {
	switch {
	case i == nil:
		return tally{}
	case i.Healthy:
		return tally{Instances: 1, Healthy: 1}
	}
	return tally{Instances: 1}
}

// recountAlloc changes the numbers of the plugins that an allocation ran and runs now; old may be nil.
func recountAlloc(tx *WriteTx, old, now *structs.Allocation) {
	if old != nil && old.JobVersion == now.JobVersion && old.ClientTerminal() == now.ClientTerminal() {
		return
	}
	eachRun(tx.ReadTx, old, func(plugin string, kind structs.CSIKind) { recount(tx, plugin, kind, tally{Runs: 1}, tally{}) })
	eachRun(tx.ReadTx, now, func(plugin string, kind structs.CSIKind) { recount(tx, plugin, kind, tally{}, tally{Runs: 1}) })
}

// eachRun calls fn for each half of a plugin that the allocation runs, unless it is nil or has ended.
func eachRun(tx *ReadTx, a *structs.Allocation, fn func(plugin string, kind structs.CSIKind)) {
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
func kindsOf(tx *ReadTx, a *structs.Allocation, plugin string) []structs.CSIKind {
	var kinds []structs.CSIKind
	job := JobVersion(tx, a.Namespace, a.JobID, a.JobVersion)
	if job == nil || job.Group(a.TaskGroup) == nil {
		return nil
	}
	for _, t := range job.Group(a.TaskGroup).Tasks {
		if t.CSIPluginConfig != nil && t.CSIPluginConfig.ID == plugin {
			kinds = append(kinds, t.CSIPluginConfig.Kinds()...)
		}
	}
	return kinds
}

// pluginCounts are how many halves of a plugin are healthy and how many there should be.
type pluginCounts struct {
	controllersHealthy, controllersExpected int
	nodesHealthy, nodesExpected             int
}

func countPlugin(tx *ReadTx, id string) pluginCounts {
	controllers, nodes := tallyOf(tx, id, structs.CSIKindController), tallyOf(tx, id, structs.CSIKindNode)
	return pluginCounts{controllers.Healthy, controllers.expected(), nodes.Healthy, nodes.expected()}
}

// HealthyInstance reports whether a half of the plugin is healthy anywhere.
func HealthyInstance(tx *ReadTx, plugin string, kind structs.CSIKind) bool {
	return tallyOf(tx, plugin, kind).Healthy > 0
}
