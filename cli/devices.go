package cli

import "berth/structs"

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
