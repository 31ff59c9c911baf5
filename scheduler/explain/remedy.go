package explain

import (
	"cmp"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
)

// command returns a command on an object of a namespace, which it names if it is not the default one.
func command(namespace, verb string, args ...string) string {
	return structs.CommandLine(namespace, verb, args...)
}

// allocCommand returns a command on an allocation, such as status or logs.
func allocCommand(a *structs.Allocation, verb string) string {
	return command(a.Namespace, "alloc "+verb, structs.ShortID(a.ID))
}

// causeCommand returns the command that shows why an allocation has failed or does not run.
func causeCommand(a *structs.Allocation) string {
	task, _ := newestTask(a)
	return taskCommand(a, task)
}

// taskCommand returns the command that shows why a task has ended: its logs or, if it has never started, its
// events. The logs need the name of the task if there are several.
func taskCommand(a *structs.Allocation, task string) string {
	s := a.TaskStates[task]
	switch {
	case s == nil || s.StartedAt.IsZero():
		return allocCommand(a, "status")
	case len(a.TaskStates) > 1:
		return allocCommand(a, "logs -task "+structs.ShellWord(task))
	}
	return allocCommand(a, "logs")
}

// pluginLogs returns the command that shows the logs of the task of an allocation that serves a plugin.
func (x *explainer) pluginLogs(a *structs.Allocation, plugin string) string {
	j := state.JobOf(x.tx, a)
	if j != nil && j.Group(a.TaskGroup) != nil {
		for _, t := range j.Group(a.TaskGroup).Tasks {
			if t.CSIPluginConfig != nil && t.CSIPluginConfig.ID == plugin {
				return taskCommand(a, t.Name)
			}
		}
	}
	return allocCommand(a, "status")
}

// ifItLasts is the remedy of a call of a plugin that has not failed.
func ifItLasts(plugin string) string {
	return "if this lasts: berth plugin status " + structs.ShellWord(plugin)
}

// The scheduler's filters whose reasons concern nodes, volumes and plugins.
const (
	eligibilityFilter = "eligibility"
	volumeFilter      = "csi-volume"
	pluginFilter      = "csi-plugin"
	limitFilter       = "csi-limit"
	networkFilter     = "network"
)

// remedyOf returns the next thing that an operator can do when a filter rejects nodes for a group of a job,
// nil for one that the job no longer has.
func remedyOf(filter string, j *structs.Job, g *structs.TaskGroup, tx *state.ReadTx) string {
	switch filter {
	case networkFilter:
		if g.Network().Isolated() {
			return isolatedRemedy
		}
	case volumeFilter:
		return command(j.Namespace, "volume status", onlyVolume(j, g)) +
			" shows who uses it and from where it is reachable; berth plugin status " + onlyPlugin(j, g, tx) +
			" shows where the nodes are"
	case pluginFilter:
		return "run the plugin's job on these nodes: berth plugin status " + onlyPlugin(j, g, tx)
	}

	return remedies[filter]
}

// onlyVolume returns the ID of the CSI volume of a group, a placeholder if it has several.
func onlyVolume(j *structs.Job, g *structs.TaskGroup) string {
	// The IDs of a volume per allocation differ between two indexes.
	if g == nil || len(g.CSIUses(0, "")) != 1 || g.CSIUses(0, "")[0].VolumeID != g.CSIUses(1, "")[0].VolumeID {
		return "VOLUME"
	}
	return g.CSIUses(0, "")[0].VolumeID
}

// onlyPlugin returns the ID of the CSI plugin of a group's volumes, a placeholder if there are several.
func onlyPlugin(j *structs.Job, g *structs.TaskGroup, tx *state.ReadTx) string {
	found := ""
	if g != nil {
		for _, u := range g.CSIUses(0, "") {
			v := csi.Volume(tx, j.Namespace, u.VolumeID)
			if v == nil || found != "" && found != v.PluginID {
				return "PLUGIN"
			}

			found = v.PluginID
		}
	}

	return structs.ShellWord(cmp.Or(found, "PLUGIN"))
}

// remedies has the remedy of each filter that does not concern the objects of a namespace.
var remedies = map[string]string{
	eligibilityFilter: "start the agents of nodes that are down; else berth node eligibility -enable NODE, " +
		"or berth node drain -disable NODE",
	"datacenter":  "set datacenters in the job, or datacenter in the client block of the nodes",
	"node-pool":   "set node_pool in the job, or in the client block of the nodes",
	"level":       "update the agents of these nodes",
	"driver":      "berth node status NODE shows the drivers; enable the driver in the client block of the nodes",
	"constraint":  "berth node status -verbose NODE shows the attributes; change the constraint or the nodes",
	"device":      "berth node status NODE shows the devices; ask for fewer, or add nodes that have them",
	networkFilter: "choose another static port, or a host_network that the nodes have",
	"host-volume": "offer the volume in the client block of the nodes, " +
		"or wait for the end of its writer",
	"distinct-hosts":    "add nodes, lower the count, or remove distinct_hosts",
	"distinct-property": "add nodes with other values of the property, raise its limit, or lower the count",
	"csi-guard": `use the driver exec, raw_exec or docker, ` +
		`or set on_node_loss of the volume to "hold" or "fence"`,
	limitFilter: "add nodes, or end allocations that use volumes of the plugin on these nodes",
	"quota": "berth quota status QUOTA shows its use; end other allocations of its namespaces, ask for less, " +
		"or raise the bound: berth quota apply FILE",
	"resources": "add nodes, end other allocations, or ask for less in the resources block",
}

// isolatedRemedy is the remedy of networkFilter for a group whose allocations have networks of their own.
const isolatedRemedy = "berth node status NODE shows the networks and the drivers of the node, and the log " +
	"of its agent what a mode lacks: install that, or choose another mode, static port or host_network"

// hastenRemedy tells how to have the effect of a scheduled evaluation now. Most replace failed allocations:
// replacing has the IDs of these evaluations. The others look for places again.
func (x *jobExplainer) hastenRemedy(j *structs.Job, e *structs.Evaluation, replacing map[string]bool) string {
	if !replacing[e.ID] {
		return "to look for places now: " + command(j.Namespace, "job eval", j.ID)
	}
	d := state.DeploymentOfVersion(x.tx, j)
	if d != nil && d.Status == structs.DeploymentFailed {
		return "it replaces none of the deployment that has failed: mend the job and run it again"
	}
	return "to replace failed allocations now: " + command(j.Namespace, "job eval -force-reschedule", j.ID)
}
