package structs

import (
	"cmp"
	"time"
)

// The defaults of a request, and the name of all namespaces.
const (
	DefaultNamespace = "default"
	AllNamespaces    = "*"
	DefaultRegion    = "global"
	DefaultNodePool  = "default"
)

// AllNodePools is the pool of every node. A job in it may run on each of them.
const AllNodePools = "all"

// Indexes are the Raft indexes of the first and the last put of a row. Every row embeds it; the transaction
// stamps it.
type Indexes struct {
	CreateIndex uint64
	ModifyIndex uint64
}

// Stamps returns the indexes of any row.
func (i *Indexes) Stamps() (created, modified uint64) {
	return i.CreateIndex, i.ModifyIndex
}

// Stamp lets the state store stamp any row.
func (i *Indexes) Stamp(created, modified uint64) {
	i.CreateIndex = created
	i.ModifyIndex = modified
}

// QueryOptions has the options of a read. Every read request embeds it.
type QueryOptions struct {
	Region     string        `json:",omitempty"`
	Namespace  string        `json:",omitempty"` // "" means "default"; "*" all, where a list allows it
	MinIndex   uint64        `json:",omitempty"` // wait until the answer's index is newer than this
	MaxWait    time.Duration `json:",omitempty"` // at most this long; 0 means 5 minutes, capped at 10
	AllowStale bool          `json:",omitempty"` // any server may answer from its own state
	Prefix     string        `json:",omitempty"`
	Filter     string        `json:",omitempty"` // a go-bexpr expression over the answer's rows
	PerPage    int32         `json:",omitempty"`
	NextToken  string        `json:",omitempty"`
	Sort       string        `json:",omitempty"` // SortCreate or SortModify; "" is by ID
	Reverse    bool          `json:",omitempty"`
	AuthToken  string        `json:"-" codec:"AuthToken"`
	Forwarded  bool          `json:",omitempty"` // set by the server that forwards the request: one hop at most
	// Origin is that of a request by HTTP, nil for others. No entry of the log has it.
	Origin *Origin `json:"-" codec:"Origin,omitempty"`
	// Stream makes a list return QueryMeta.Rows instead of a page, if the caller is in this process. It
	// crosses no wire.
	Stream bool `json:"-" codec:"-"`
	// Sees reports whether a list shows a row to its caller; namespace is "" for rows without one. nil shows
	// all. The server that answers sets it. It crosses no wire.
	Sees func(namespace, id string) bool `json:"-" codec:"-"`
}

// The keys of sorted lists, besides the IDs of rows: the log index at which a row was created or changed.
const (
	SortCreate = "CreateIndex"
	SortModify = "ModifyIndex"
)

// Query lets the middleware reach the options of any read request.
func (q *QueryOptions) Query() *QueryOptions { return q }

// RequestNamespace returns the requested namespace, with the default filled in.
func (q *QueryOptions) RequestNamespace() string {
	return NamespaceOr(q.Namespace)
}

// WriteOptions are embedded in every write request.
type WriteOptions struct {
	Region    string `json:",omitempty"`
	Namespace string `json:",omitempty"`
	AuthToken string `json:"-" codec:"AuthToken"`
	Forwarded bool   `json:",omitempty"`
	// Now is the time of the server that proposes the command, UnixNano. Apply reads no clock.
	Now int64 `json:",omitempty"`
	// Created is the CreateIndex of the row on which the caller acts, 0 for any. A destructive request then
	// changes no row that was made anew under the same name since the caller has seen it.
	Created uint64 `json:",omitempty" codec:",omitempty"`
	// Origin is that of a request by HTTP, nil for others. No entry of the log has it.
	Origin *Origin `json:"-" codec:"Origin,omitempty"`
}

// Write lets the middleware reach the options of any write request.
func (w *WriteOptions) Write() *WriteOptions { return w }

// RequestNamespace returns the requested namespace, with the default filled in.
func (w *WriteOptions) RequestNamespace() string {
	return NamespaceOr(w.Namespace)
}

// NamespaceOr fills in the default namespace.
func NamespaceOr(ns string) string {
	return cmp.Or(ns, DefaultNamespace)
}

// QueryMeta identifies the state from which an answer was read. Every read answer embeds it.
type QueryMeta struct {
	Index       uint64        // the newest index of the tables that were read
	LastContact time.Duration // how old a follower's knowledge of its leader is; 0 on the leader
	KnownLeader bool
	NextToken   string `json:",omitempty"` // where the next page begins; "" on the last
	// Rows, if the caller asked to Stream and may, calls do with each row of the list, all of one snapshot.
	// It makes one row at a time: do may not keep it. It ends with the first error of do. The list itself is
	// empty then.
	Rows func(do func(row any) error) error `json:"-" codec:"-"`
}

// Meta lets the middleware reach the metadata of any read answer.
func (m *QueryMeta) Meta() *QueryMeta { return m }

// WriteMeta is embedded in every write answer: Index is the log entry's.
type WriteMeta struct {
	Index uint64
}

// Written lets the middleware reach the metadata of any write answer.
func (m *WriteMeta) Written() *WriteMeta { return m }

// Empty is an answer that contains only the index at which a write took effect.
type Empty struct{ WriteMeta }
