package node

import (
	"berth/api/show"
	"berth/cli/command"
	"berth/structs"
)

// printHostVolumes shows the directories that a node offers to jobs.
func printHostVolumes(c *command.Call, n *structs.Node) {
	var rows command.Grid
	for name, v := range show.Sorted(n.HostVolumes) {
		rows.AddRow(name, v.Path, show.YesNo(v.ReadOnly))
	}
	command.PrintSome(c, "Host volumes", "Name|Path|Read Only", rows)
}
