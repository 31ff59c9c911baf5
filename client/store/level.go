package store

import (
	"encoding/binary"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"

	"berth/internal/level"
)

// formatBucket has the level of the version that wrote the file under levelKey (see package level), with a
// digest as other records.
const (
	formatBucket = "format"
	levelKey     = "level"
)

// The errors for files of other versions. An older version would drop fields of the records that it writes.
var (
	errNewer = errors.New("a newer version of berth has written the records of this node")
	errOlder = errors.New("a version before 0.1.0 has written them")
)

// readLevel returns the level of a file. It comes before the digests, which a newer version may compute in
// another way.
func readLevel(tx *bbolt.Tx) (uint64, error) {
	bucket := tx.Bucket([]byte(formatBucket))
	if bucket == nil {
		return 0, fmt.Errorf("the records of this node have no level: %w", errOlder)
	}
	text := bucket.Get([]byte(levelKey))
	if len(text) != 8 {
		return 0, fmt.Errorf("a level of %d bytes", len(text))
	}
	of := binary.BigEndian.Uint64(text)
	if of > level.Now {
		return 0, fmt.Errorf("%w, with level %d; this version reads up to level %d", errNewer, of, level.Now)
	}
	return of, nil
}

// checkLevel rejects a level below the first release's.
func checkLevel(of uint64) error {
	if of < level.First {
		return fmt.Errorf("the records of this node have level %d, and this version reads from level %d: %w",
			of, level.First, errOlder)
	}
	return nil
}

// putLevel gives a file the level of this version.
func putLevel(tx *bbolt.Tx) error {
	text := binary.BigEndian.AppendUint64(nil, level.Now)
	return changeRecord(tx, formatBucket, []byte(levelKey), text)
}

// raiseLevel gives a file of a lower level this version's level, before a record is written.
func raiseLevel(b *bbolt.DB) error {
	var of uint64
	err := b.View(func(tx *bbolt.Tx) (err error) {
		of, err = readLevel(tx)
		return err
	})
	if err != nil || of == level.Now {
		return err
	}
	// From here on, versions of the old level reject the file: they would drop fields.
	return b.Update(putLevel)
}
