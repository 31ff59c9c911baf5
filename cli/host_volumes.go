package cli

import "berth/structs"

// printHostVolumes shows the directories that a node offers to jobs.
func printHostVolumes(c *Call, n *structs.Node) {
	var rows grid
	for name, v := range sorted(n.HostVolumes) {
		rows.addRow(name, v.Path, yesNo(v.ReadOnly))
	}
	printSome(c, "Host volumes", "Name|Path|Read Only", rows)
}
