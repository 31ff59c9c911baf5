package state

// TableInfo describes a table for the reference.
type TableInfo struct {
	Name    string
	Indexes []string // beside its key, by name
}

// Tables describes every table, in the order in which a snapshot holds them.
func Tables() []TableInfo {
	var out []TableInfo
	for _, t := range schema().tables {
		out = append(out, TableInfo{t.name(), t.indexNames()})
	}
	return out
}
