// Package store keeps a node's own records over restarts of its agent, in one bbolt file. It has one bucket
// per kind of record, and msgpack values.
package store

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"go.etcd.io/bbolt"

	"berth/internal/coalesce"
	"berth/internal/codec"
)

// DB is the node's file. It is locked while it is open: two agents cannot share a data directory.
type DB struct {
	bolt *bbolt.DB
	lock *os.File // of client.lock, which holds the flock until Close

	// commits puts the Commits that come while a transaction is committed into the next one.
	commits coalesce.Batcher[struct{}, *group]
}

// Close releases the file.
func (d *DB) Close() error {
	// The lock goes last: the next agent reads the file once it has it.
	return errors.Join(d.bolt.Close(), d.lock.Close())
}

// Table is the bucket of one kind of record. The zero key is not allowed.
type Table[T any] struct{ bucket string }

// NewTable names a bucket. The name never changes.
func NewTable[T any](bucket string) Table[T] { return Table[T]{bucket} }

// Key joins parts into a key. NUL separates them, so no part has one.
func Key(parts ...string) string {
	return strings.Join(parts, "\x00")
}

// Change returns the change that writes a record.
func (t Table[T]) Change(key string, v *T) Change {
	b, err := codec.Encode(v)
	if err != nil {
		err = fmt.Errorf("encoding a record of %s: %w", t.bucket, err)
	}
	return Change{bucket: t.bucket, key: key, value: b, err: err}
}

// Removal is the change that deletes a record.
func (t Table[T]) Removal(key string) Change { return Change{bucket: t.bucket, key: key} }

// Put writes a record. It is durable when Put returns.
func (t Table[T]) Put(db *DB, key string, v *T) error {
	return db.Commit(t.Change(key, v))
}

// Get reads a record, nil if there is none.
func (t Table[T]) Get(db *DB, key string) (v *T, err error) {
	err = db.bolt.View(func(tx *bbolt.Tx) error {
		bucket := tx.Bucket([]byte(t.bucket))
		if bucket == nil {
			return nil
		}
		b := bucket.Get([]byte(key))
		if b == nil {
			return nil
		}
		v = new(T)
		return codec.Decode(b, v)
	})
	if err != nil {
		return nil, t.wrapError("reading", key, err)
	}
	return v, nil
}

// Delete removes a record. A missing record is no error.
func (t Table[T]) Delete(db *DB, key string) error {
	return db.Commit(t.Removal(key))
}

// Record is one record of a table with its key.
type Record[T any] struct {
	Key   string
	Value *T
}

// All reads the records whose keys begin with prefix, in the order of their keys. If a record does not
// decode, All returns the error and the other records, so that one bad record hides no good one.
func (t Table[T]) All(db *DB, prefix string) (records []Record[T], err error) {
	var bad error
	err = db.bolt.View(func(tx *bbolt.Tx) error {
		bucket := tx.Bucket([]byte(t.bucket))
		if bucket == nil {
			return nil
		}

		c := bucket.Cursor()
		// Keys are sorted, so those with the prefix are adjacent.
		k, b := c.Seek([]byte(prefix))
		for ; k != nil; k, b = c.Next() {
			key := string(k)
			if !strings.HasPrefix(key, prefix) {
				break
			}

			v := new(T)
			if err := codec.Decode(b, v); err != nil {
				bad = t.wrapError("reading", key, err)
				continue
			}

			records = append(records, Record[T]{key, v})
		}

		return nil
	})
	return records, errors.Join(err, bad)
}

func (t Table[T]) wrapError(doing, key string, err error) error {
	return wrapError(doing, t.bucket, key, err)
}

func wrapError(doing, bucket, key string, err error) error {
	if err == nil {
		return nil
	}
	// Key separates the parts by NUL, which terminals do not show.
	shown := strings.ReplaceAll(key, "\x00", "/")
	return fmt.Errorf("%s the node's record %s %q: %w", doing, bucket, shown, err)
}
