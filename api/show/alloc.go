package show

import (
	"fmt"

	"berth/structs"
)

// Allocs has the columns of allocations in a list.
var Allocs = Noun[*structs.AllocListStub]{
	Titles: "ID|Namespace|Job|Group|Node|Version|Desired|Status|Restarts|Created|Modified",
	Row: func(a *structs.AllocListStub, id func(string) string) []string {
		return []string{
			id(a.ID),
			a.Namespace,
			a.JobID,
			a.TaskGroup,
			NodeName(a.NodeName, id(a.NodeID)),
			fmt.Sprint(a.JobVersion),
			a.DesiredStatus,
			a.ClientStatus,
			fmt.Sprint(Restarts(a)),
			Age(a.CreateTime),
			Age(a.ModifyTime),
		}
	},
}

// NodeName formats the name of a node with its ID.
func NodeName(name, id string) string {
	if name == "" {
		return id
	}
	return fmt.Sprintf("%s (%s)", name, id)
}

// Restarts counts the restarts of all tasks of an allocation.
func Restarts(a *structs.AllocListStub) (n int) {
	for _, t := range a.TaskStates {
		if t != nil {
			n += int(t.Restarts)
		}
	}
	return n
}
