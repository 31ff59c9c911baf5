package cli

import "berth/structs"

// printHostVolumes shows the directories that a node offers to jobs.
func printHostVolumes(c *Call, n *structs.Node) {
	var rows Grid
	for name, v := range Sorted(n.HostVolumes) {
		rows.AddRow(name, v.Path, YesNo(v.ReadOnly))
	}
	PrintSome(c, "Host volumes", "Name|Path|Read Only", rows)
}
