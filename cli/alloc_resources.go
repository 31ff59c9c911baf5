package cli

import (
	"strconv"
	"strings"

	"berth/structs"
)

// printAllocPorts shows the ports of an allocation.
func printAllocPorts(c *Call, r *structs.AllocatedResources) {
	if r == nil {
		return
	}
	var rows grid
	for _, p := range r.Shared.Ports {
		rows.addRow(p.Label, p.HostAddr(), strconv.Itoa(p.Inside()))
	}
	printSome(c, "Ports", "Label|Address|Task's Port", rows)
}

// printAllocNetwork shows the network of an allocation that has one of its own.
func printAllocNetwork(c *Call, a *structs.Allocation) {
	s := a.NetworkStatus
	if s == nil {
		return
	}
	var rows grid
	rows.addRow(a.ModeOf(), s.InterfaceName, s.Address)
	printSome(c, "Network", "Mode|Interface|Address", rows)
}

// printAllocDevices shows the devices that the tasks of an allocation have.
func printAllocDevices(c *Call, r *structs.AllocatedResources) {
	if r == nil {
		return
	}
	var rows grid
	for task, has := range sorted(r.Tasks) {
		for _, d := range has.Devices {
			rows.addRow(task, d.ID(), strings.Join(d.DeviceIDs, ", "))
		}
	}
	printSome(c, "Devices", "Task|Group|Devices", rows)
}

// printAllocHostVolumes shows the host volumes of an allocation.
func printAllocHostVolumes(c *Call, a *structs.Allocation) {
	group := groupOf(a)
	if group == nil {
		return
	}
	var rows grid
	for _, r := range group.HostVolumes() {
		rows.addRow(r.Name, r.Source, string(r.AccessMode), yesNo(r.ReadOnly))
	}
	printSome(c, "Host volumes", "Alias|Volume|Access Mode|Read Only", rows)
}
