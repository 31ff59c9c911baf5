package state

import (
	"maps"
	"slices"
)

// TableInfo describes a table for the reference.
type TableInfo struct {
	Name    string
	Indexes []string // beside its key, by name
}

// Tables describes every table, in the order in which a snapshot holds them.
func Tables() []TableInfo {
	var out []TableInfo
	for _, t := range schema().tables {
		names := slices.Sorted(maps.Keys(schema().db.Tables[t.name()].Indexes))
		out = append(out, TableInfo{t.name(), slices.DeleteFunc(names, func(n string) bool { return n == idIndex })})
	}
	return out
}
