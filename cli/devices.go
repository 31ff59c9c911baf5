package cli

import (
	"strings"

	"berth/structs"
)

// printDevices shows the devices of a node with their health.
func printDevices(c *Call, r *structs.NodeResources) {
	if r == nil {
		return
	}
	var rows grid
	for _, g := range r.Devices {
		for _, d := range g.Instances {
			rows.addRow(g.ID(), d.ID, healthWord(d.Healthy), healthText(d.Healthy, d.HealthDescription))
		}
	}
	printSome(c, "Devices", "Group|Device|Health|Description", rows)
}

// printDeviceAttributes shows the attributes of the device groups of a node, which constraints name.
func printDeviceAttributes(c *Call, r *structs.NodeResources) {
	if r == nil {
		return
	}
	var rows grid
	for _, g := range r.Devices {
		for name, value := range sorted(g.Attributes) {
			rows.addRow(g.ID(), name, value.Text())
		}
	}
	printSome(c, "Device attributes", "Group|Name|Value", rows)
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

// printSome shows a section that most nodes and allocations do not have.
func printSome(c *Call, title, titles string, rows grid) {
	if len(rows) > 0 {
		c.section(title, titles, rows)
	}
}
