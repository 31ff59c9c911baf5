package node

import (
	"berth/api/show"
	"berth/cli/command"
	"berth/structs"
)

// printDevices shows the devices of a node with their health.
func printDevices(c *command.Call, r *structs.NodeResources) {
	if r == nil {
		return
	}

	var rows command.Grid
	for _, g := range r.Devices {
		for _, d := range g.Instances {
			rows.AddRow(g.ID(), d.ID, show.HealthWord(d.Healthy),
				show.HealthText(d.Healthy, d.HealthDescription))
		}
	}

	command.PrintSome(c, "Devices", "Group|Device|Health|Description", rows)
}

// printDeviceAttributes shows the attributes of the device groups of a node, which constraints name.
func printDeviceAttributes(c *command.Call, r *structs.NodeResources) {
	if r == nil {
		return
	}

	var rows command.Grid
	for _, g := range r.Devices {
		for name, value := range show.Sorted(g.Attributes) {
			rows.AddRow(g.ID(), name, value.Text())
		}
	}

	command.PrintSome(c, "Device attributes", "Group|Name|Value", rows)
}
