package schema

import (
	"slices"

	"berth/structs"
)

// WholeGroups reports whether no group and no task is nil. Readers of the row rely on it.
func WholeGroups(j *structs.Job) bool {
	return !slices.ContainsFunc(j.TaskGroups, func(g *structs.TaskGroup) bool {
		return g == nil || slices.Contains(g.Tasks, nil)
	})
}
