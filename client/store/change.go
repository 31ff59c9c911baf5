package store

import (
	"context"

	"go.etcd.io/bbolt"
)

// change is a change of one record.
type change struct {
	bucket, key string
	value       []byte // nil removes the record
	err         error  // of its commit
}

// commit makes a change durable. Changes that arrive while a transaction is committed share the next one,
// because each commit waits for the disk twice.
func (d *DB) commit(c *change) error {
	_, _ = d.changes.Do(context.Background(), struct{}{}, c) // the error is that of c
	return c.err
}

// commitAll commits changes in one transaction. If that fails, it commits each by itself, so that one that
// cannot be written hinders no other.
func (d *DB) commitAll(_ context.Context, _ struct{}, changes []*change) (uint64, error) {
	err := d.commitTogether(changes)
	for _, c := range changes {
		c.err = err
		if err != nil && len(changes) > 1 {
			c.err = d.commitTogether([]*change{c})
		}
	}
	return 0, nil
}

func (d *DB) commitTogether(changes []*change) error {
	return d.bolt.Update(func(tx *bbolt.Tx) error {
		for _, c := range changes {
			err := changeRecord(tx, c.bucket, []byte(c.key), c.value)
			if err != nil {
				return err
			}
		}
		return nil
	})
}
