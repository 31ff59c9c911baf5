package alloc

import (
	"strconv"
	"strings"

	"berth/api/show"
	"berth/cli/command"
	"berth/cli/watch"
	"berth/structs"
)

// printAllocPorts shows the ports of an allocation.
func printAllocPorts(c *command.Call, r *structs.AllocatedResources) {
	if r == nil {
		return
	}
	var rows command.Grid
	for _, p := range r.Shared.Ports {
		rows.AddRow(p.Label, p.HostAddr(), strconv.Itoa(p.Inside()))
	}
	command.PrintSome(c, "Ports", "Label|Address|Task's Port", rows)
}

// printAllocNetwork shows the network of an allocation that has one of its own.
func printAllocNetwork(c *command.Call, a *structs.Allocation) {
	s := a.NetworkStatus
	if s == nil {
		return
	}
	var rows command.Grid
	rows.AddRow(a.ModeOf(), s.InterfaceName, s.Address)
	command.PrintSome(c, "Network", "Mode|Interface|Address", rows)
}

// printAllocDevices shows the devices that the tasks of an allocation have.
func printAllocDevices(c *command.Call, r *structs.AllocatedResources) {
	if r == nil {
		return
	}

	var rows command.Grid
	for task, has := range show.Sorted(r.Tasks) {
		for _, d := range has.Devices {
			rows.AddRow(task, d.ID(), strings.Join(d.DeviceIDs, ", "))
		}
	}

	command.PrintSome(c, "Devices", "Task|Group|Devices", rows)
}

// printAllocHostVolumes shows the host volumes of an allocation.
func printAllocHostVolumes(c *command.Call, a *structs.Allocation) {
	group := watch.GroupOf(a)
	if group == nil {
		return
	}
	var rows command.Grid
	for _, r := range group.HostVolumes() {
		rows.AddRow(r.Name, r.Source, string(r.AccessMode), show.YesNo(r.ReadOnly))
	}
	command.PrintSome(c, "Host volumes", "Alias|Volume|Access Mode|Read Only", rows)
}

// printInlineVolumes shows the volumes that a plugin makes for an allocation. No server has a row of them:
// the description of the allocation tells why one is not mounted yet, or could not be.
func printInlineVolumes(c *command.Call, a *structs.Allocation) {
	group := watch.GroupOf(a)
	if group == nil {
		return
	}
	var rows command.Grid
	for alias, r := range show.Sorted(group.Volumes) {
		if r.IsInline() {
			rows.AddRow(alias, r.Source, r.PluginID, show.YesNo(r.ReadOnly), show.YesNo(hasInline(a)))
		}
	}
	command.PrintSome(c, "Inline volumes", "Alias|Volume|Plugin|Read Only|Mounted", rows)
}

// hasInline reports whether the inline volumes of an allocation are mounted. The node mounts all of them
// before the first task starts, and unmounts them when all tasks have ended.
func hasInline(a *structs.Allocation) bool {
	if a.ClientTerminal() {
		return false
	}
	for _, t := range a.TaskStates {
		if t != nil && !t.StartedAt.IsZero() {
			return true
		}
	}
	return false
}
