package store

import (
	"context"
	"errors"

	"go.etcd.io/bbolt"
)

// Change is a change of one record: see Table.Change and DB.Commit.
type Change struct {
	bucket, key string
	value       []byte // nil removes the record
	err         error  // of the encoding
}

// group has the changes of one Commit.
type group struct {
	changes []Change
	err     error
}

// Commit makes changes durable, all or none. The error names the first of them. Calls that come while a
// transaction is committed share the next one, because each waits for the disk twice.
func (d *DB) Commit(changes ...Change) error {
	g := &group{changes: changes}
	for _, c := range changes {
		g.err = errors.Join(g.err, c.err)
	}
	if len(changes) == 0 {
		return nil
	}
	if g.err == nil {
		_, _ = d.commits.Do(context.Background(), struct{}{}, g) // the error is g's
	}
	first := changes[0]
	doing := "writing"
	if first.value == nil && first.err == nil {
		doing = "deleting"
	}
	return wrapError(doing, first.bucket, first.key, g.err)
}

// commitAll commits groups in one transaction. If that fails, it commits each by itself, so that one that
// cannot be written hinders no other.
func (d *DB) commitAll(_ context.Context, _ struct{}, groups []*group) (uint64, error) {
	err := d.commitTogether(groups)
	for _, g := range groups {
		g.err = err
		if err != nil && len(groups) > 1 {
			// The failed transaction has changed nothing, so this writes each change once.
			g.err = d.commitTogether([]*group{g})
		}
	}
	return 0, nil
}

// commitTogether writes groups in one transaction. bbolt syncs the pages first and the meta page that names
// them after that, so a crash leaves all changes or none.
func (d *DB) commitTogether(groups []*group) error {
	return d.bolt.Update(func(tx *bbolt.Tx) error {
		for _, g := range groups {
			for _, c := range g.changes {
				err := changeRecord(tx, c.bucket, []byte(c.key), c.value)
				if err != nil {
					return err
				}
			}
		}
		return nil
	})
}
