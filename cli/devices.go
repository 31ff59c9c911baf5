package cli

import "berth/structs"

// printDevices shows the devices of a node with their health.
func printDevices(c *Call, r *structs.NodeResources) {
	if r == nil {
		return
	}
	var rows Grid
	for _, g := range r.Devices {
		for _, d := range g.Instances {
			rows.AddRow(g.ID(), d.ID, HealthWord(d.Healthy), HealthText(d.Healthy, d.HealthDescription))
		}
	}
	PrintSome(c, "Devices", "Group|Device|Health|Description", rows)
}

// printDeviceAttributes shows the attributes of the device groups of a node, which constraints name.
func printDeviceAttributes(c *Call, r *structs.NodeResources) {
	if r == nil {
		return
	}
	var rows Grid
	for _, g := range r.Devices {
		for name, value := range Sorted(g.Attributes) {
			rows.AddRow(g.ID(), name, value.Text())
		}
	}
	PrintSome(c, "Device attributes", "Group|Name|Value", rows)
}
