package state

import (
	"io"

	"berth/internal/mvcc"
	"berth/state/namespace"
	"berth/state/schema"
	"berth/structs"
)

type (
	// Reader is a ReadTx or a WriteTx. Read functions take it.
	Reader = mvcc.Reader
	// ReadTx is a snapshot.
	ReadTx = mvcc.ReadTx
	// WriteTx is the transaction of one log entry. Write functions take it.
	WriteTx = mvcc.WriteTx
	// Batch applies the log entries of one transaction.
	Batch = mvcc.Batch
	// Key is a tuple by which an index finds rows.
	Key = mvcc.Key
	// Page is the position at which a list begins.
	Page = mvcc.Page
	// Topic is an index that a loop follows.
	Topic = mvcc.Topic
	// Change names a changed row of a topic.
	Change = mvcc.Change
	// Subscription receives the changes of topics.
	Subscription = mvcc.Subscription
)

// Store is the database with the tables of this package.
type Store struct{ *mvcc.DB }

// New returns an empty store.
func New() *Store {
	return &Store{mvcc.Open(&schema.All)}
}

// Load replaces the state by a snapshot file. See mvcc.DB.Load. Each fault is one of the file.
func (s *Store) Load(r io.Reader) error {
	err := s.DB.Load(r, linkInstances, countAllEvalAllocs, namespace.CountQuotaUses, countMethodTokens)
	if err != nil {
		return structs.Invalidf("%w", err)
	}
	return nil
}

// linkInstances sets in each node the keys of its plugin instances, which a snapshot file does not hold.
func linkInstances(tx *mvcc.LoadTx) {
	keys := map[string][]structs.CSIInstanceKey{}
	for i := range schema.Instances.Scan(tx) {
		keys[i.NodeID] = append(keys[i.NodeID], i.Key())
	}
	for n := range schema.Nodes.Scan(tx) {
		own := keys[n.ID]
		if own != nil {
			n.SetCSIInstances(*mvcc.InternValue(&own))
		}
	}
}
