package state

import "berth/internal/mvcc"

// schema lists the tables in the order in which a snapshot file holds them.
var schema = mvcc.Schema{
	Tables: []mvcc.AnyTable{
		nodes,
		plugins,
		instances,
		counts,
		volumes,
		claims,
		lines,
		attachments,
		jobVersions, // before jobs: a list of jobs would read versions that have no job
		jobs,
		allocs,
		evals,
		wakes,
	},
	Interner: func(decoding bool) any { return newInterner(decoding) },
}

// TableInfo describes a table for the reference.
type TableInfo struct {
	Name    string
	Row     string   // the type of its rows, as structs.Node
	Indexes []string // without the key of the table, by name
}

// Tables describes all tables in the order in which a snapshot file holds them.
func Tables() []TableInfo {
	var out []TableInfo
	for _, t := range schema.AllTables() {
		out = append(out, TableInfo{t.Name(), t.RowType(), t.IndexNames()})
	}
	return out
}

// Topics that a leader's loop can subscribe to. The comments name the parts of mvcc.Change.Key.
var (
	NodeRows       = nodes.Topic(0)       // node
	InstanceRows   = instances.Topic(0)   // plugin, kind, node
	VolumeRows     = volumes.Topic(0)     // namespace, volume
	AttachmentRows = attachments.Topic(0) // namespace, volume, node

	// EndedClaimRows are claims that outlive their allocations, or did before: namespace, volume, allocation.
	EndedClaimRows = endedClaims.Topic(1)

	// GrowingClaimRows are claims that GrowingClaims yields, or yielded before: namespace, volume, allocation.
	GrowingClaimRows = growing.Topic(2)
)
