package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc64"

	"go.etcd.io/bbolt"
)

// digests is the bucket of the digests: per bucket of records the number of records and the exclusive or of
// their checksums.
var digests = []byte("digests")

var crcTable = crc64.MakeTable(crc64.ECMA)

// digest is the digest of some records. An exclusive or does not depend on the order of the records, and a
// record leaves it as it has entered it: a change of one record reads no other.
type digest struct{ count, sum uint64 }

// toggle adds a record that is not in the digest, or removes one that is. by is 1 or -1.
func (d *digest) toggle(key, value []byte, by int) {
	// The length tells records apart whose keys and values make up the same bytes.
	head := binary.BigEndian.AppendUint64(nil, uint64(len(key)))
	sum := crc64.Checksum(head, crcTable)
	sum = crc64.Update(sum, crcTable, key)
	d.sum ^= crc64.Update(sum, crcTable, value)
	// -1 wraps around to the largest number, which subtracts one.
	d.count += uint64(by)
}

func (d digest) encode() []byte {
	b := binary.BigEndian.AppendUint64(nil, d.count)
	return binary.BigEndian.AppendUint64(b, d.sum)
}

// decodeDigest returns the empty digest for no bytes.
func decodeDigest(b []byte) (d digest, err error) {
	switch len(b) {
	case 0:
		return d, nil
	case 16:
		d.count = binary.BigEndian.Uint64(b)
		d.sum = binary.BigEndian.Uint64(b[8:])
		return d, nil
	}
	return d, fmt.Errorf("a digest of %d bytes", len(b))
}

// changeRecord sets a record, or removes it if value is nil, and keeps the digest of its bucket.
func changeRecord(tx *bbolt.Tx, name string, key, value []byte) error {
	bucket, err := tx.CreateBucketIfNotExists([]byte(name))
	if err != nil {
		return err
	}

	sums := tx.Bucket(digests)
	d, err := decodeDigest(sums.Get([]byte(name)))
	if err != nil {
		return err
	}

	if old := bucket.Get(key); old != nil {
		d.toggle(key, old, -1)
	}

	if value != nil {
		d.toggle(key, value, 1)
	}

	// Both are in one transaction: a crash leaves neither without the other.
	return errors.Join(putRecord(bucket, key, value),
		sums.Put([]byte(name), d.encode()))
}

func putRecord(bucket *bbolt.Bucket, key, value []byte) error {
	if value == nil {
		return bucket.Delete(key)
	}
	return bucket.Put(key, value)
}

// copyAll copies all records. A nil source has none.
func copyAll(to, from *bbolt.Tx) error {
	if _, err := to.CreateBucket(digests); err != nil || from == nil {
		return err
	}
	return from.ForEach(func(name []byte, bucket *bbolt.Bucket) error {
		// The digests are computed again from the copied records. The caller has compared the old ones.
		if bytes.Equal(name, digests) {
			return nil
		}

		copied, err := to.CreateBucket(name)
		if err != nil {
			return err
		}

		d, err := digestOf(bucket, copied.Put)
		if err != nil {
			return err
		}

		return to.Bucket(digests).Put(name, d.encode())
	})
}

// check checks a file before its records are read.
func check(tx *bbolt.Tx) error {
	of, err := readLevel(tx)
	if err != nil {
		return err
	}
	err = checkAll(tx)
	if err != nil {
		return err // a damaged level may look like a low one
	}
	return checkLevel(of)
}

// checkAll compares all records with their digests.
func checkAll(tx *bbolt.Tx) error {
	sums := tx.Bucket(digests)
	if sums == nil {
		return errors.New("the digests of the records are missing")
	}

	err := tx.ForEach(func(name []byte, bucket *bbolt.Bucket) error {
		if bytes.Equal(name, digests) {
			return nil
		}

		d, err := digestOf(bucket, func(_, _ []byte) error {
			return nil
		})
		if err == nil &&
			!bytes.Equal(sums.Get(name), d.encode()) {
			err = fmt.Errorf("the records %q do not match their digest", name)
		}

		return err
	})
	if err != nil {
		return err
	}

	// Damage to the root page may hide a whole bucket. Its digest still tells of it.
	return sums.ForEach(func(name, _ []byte) error {
		if tx.Bucket(name) == nil {
			return fmt.Errorf("the records %q are missing", name)
		}
		return nil
	})
}

// digestOf returns the digest of a bucket. It calls each for every record.
func digestOf(bucket *bbolt.Bucket, each func(key, value []byte) error) (d digest, err error) {
	err = bucket.ForEach(func(key, value []byte) error {
		// bbolt gives no value for a bucket in the bucket, and this package makes none.
		if value == nil {
			return fmt.Errorf("the record %q is none", key)
		}
		d.toggle(key, value, 1)
		return each(key, value)
	})
	return d, err
}
