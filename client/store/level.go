package store

import (
	"encoding/binary"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"
)

// level is the format of the records that this version writes. A version whose records an older one must not
// write raises it: the older one would drop their new fields. A file of before the levels has none.
const level = 1

// formatBucket has the level of the file under levelKey, with a digest as other records. So a version of
// before the levels keeps it.
const (
	formatBucket = "format"
	levelKey     = "level"
)

// errNewer is the error for a file that a newer version has written.
var errNewer = errors.New("a newer version of berth has written the records of this node")

// checkLevel returns errNewer for a file of a higher level. It comes before the digests, which a newer
// version may compute in another way.
func checkLevel(tx *bbolt.Tx) error {
	bucket := tx.Bucket([]byte(formatBucket))
	if bucket == nil {
		return nil
	}
	text := bucket.Get([]byte(levelKey))
	if len(text) != 8 {
		return fmt.Errorf("a level of %d bytes", len(text))
	}
	if of := binary.BigEndian.Uint64(text); of > level {
		return fmt.Errorf("%w, with level %d; this version reads up to level %d", errNewer, of, level)
	}
	return nil
}

func putLevel(tx *bbolt.Tx) error {
	text := binary.BigEndian.AppendUint64(nil, level)
	return changeRecord(tx, formatBucket, []byte(levelKey), text)
}
