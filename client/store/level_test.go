package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"berth/structs"
)

// setLevel gives a closed file a level as another version would write it, without the digest of it.
func setLevel(t *testing.T, path string, of uint64) {
	t.Helper()
	b, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = b.Update(func(tx *bbolt.Tx) error {
		text := binary.BigEndian.AppendUint64(nil, of)
		return tx.Bucket([]byte(formatBucket)).Put([]byte(levelKey), text)
	})
	if err := errors.Join(err, b.Close()); err != nil {
		t.Fatal(err)
	}
}

// An older version that ran on the file would write records without the new fields.
func TestOpen_RefusesAFileOfANewerVersion(t *testing.T) {
	t.Parallel()
	path, whole, _ := makeUsedFile(t)
	setLevel(t, path, level+1)
	newer, err := os.ReadFile(path)
	if err != nil || bytes.Equal(newer, whole) {
		t.Fatalf("the file has no other level: %v", err)
	}
	_, err = Open(filepath.Dir(path))
	if !structs.IsKind(err, structs.KindPrecondition) ||
		!strings.Contains(err.Error(), path+": a newer version of berth has written the records of this node") ||
		strings.Contains(err.Error(), "damaged") {
		t.Errorf("%v", err)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, newer) {
		t.Errorf("the file was changed: %v", err)
	}
}

// A file of before the levels gets the level of this version, and its records stay.
func TestOpen_GivesAFileItsLevel(t *testing.T) {
	t.Parallel()
	path, _, want := makeUsedFile(t)
	b, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = b.Update(func(tx *bbolt.Tx) error {
		return errors.Join(tx.DeleteBucket([]byte(formatBucket)),
			tx.Bucket(digests).Delete([]byte(formatBucket)))
	})
	if err := errors.Join(err, b.Close()); err != nil {
		t.Fatal(err)
	}
	db := open(t, filepath.Dir(path))
	if got, err := storedText(db); got != want || err != nil {
		t.Errorf("%v, %s", err, got)
	}
	err = db.bolt.View(func(tx *bbolt.Tx) error {
		format := tx.Bucket([]byte(formatBucket))
		if format == nil {
			return errors.New("it has no level")
		}
		text := format.Get([]byte(levelKey))
		if len(text) != 8 || binary.BigEndian.Uint64(text) != level {
			t.Errorf("the level is % x", text)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
