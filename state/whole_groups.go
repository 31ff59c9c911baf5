package state

import (
	"slices"

	"berth/structs"
)

// wholeGroups reports whether no group and no task is nil. Readers of the row rely on it.
func wholeGroups(j *structs.Job) bool {
	return !slices.ContainsFunc(j.TaskGroups, func(g *structs.TaskGroup) bool {
		return g == nil || slices.Contains(g.Tasks, nil)
	})
}
