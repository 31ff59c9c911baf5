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
