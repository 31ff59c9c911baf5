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

	"berth/internal/level"
	"berth/structs"
)

// edit changes a closed file.
func edit(t *testing.T, path string, change func(*bbolt.Tx) error) {
	t.Helper()
	b, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(b.Update(change), b.Close()); err != nil {
		t.Fatal(err)
	}
}

// setLevel gives a closed file a level as another version would write it.
func setLevel(t *testing.T, path string, of uint64) {
	t.Helper()
	edit(t, path, func(tx *bbolt.Tx) error {
		return changeRecord(tx, formatBucket, []byte(levelKey), binary.BigEndian.AppendUint64(nil, of))
	})
}

// wantLevel checks the level of an open file.
func wantLevel(t *testing.T, db *DB, want uint64) {
	t.Helper()
	err := db.bolt.View(func(tx *bbolt.Tx) error {
		of, err := readLevel(tx)
		if of != want {
			t.Errorf("the level is %d, want %d", of, want)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// An older version that ran on the file would write records without the new fields.
func TestOpen_RejectsAFileOfANewerVersion(t *testing.T) {
	t.Parallel()
	path, whole, _ := makeUsedFile(t)
	setLevel(t, path, level.Now+1)
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

// Versions before 0.1.0 wrote files without a level, or with a lower one. The error tells it from damage.
func TestOpen_RejectsAFileFromBeforeTheFirstRelease(t *testing.T) {
	t.Parallel()
	for fault, prepare := range map[string]func(t *testing.T, path string){
		"have no level": func(t *testing.T, path string) {
			edit(t, path, func(tx *bbolt.Tx) error {
				return errors.Join(tx.DeleteBucket([]byte(formatBucket)),
					tx.Bucket(digests).Delete([]byte(formatBucket)))
			})
		},
		"have level 1, and this version reads from level 2": func(t *testing.T, path string) {
			setLevel(t, path, level.First-1)
		},
	} {
		t.Run(fault, func(t *testing.T) {
			path, _, _ := makeUsedFile(t)
			prepare(t, path)
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Open(filepath.Dir(path))
			if !structs.IsKind(err, structs.KindPrecondition) ||
				!strings.Contains(err.Error(), path+": the records of this node "+fault) ||
				!strings.Contains(err.Error(), "Drain the node with that version first. Remove the file and start") ||
				strings.Contains(err.Error(), "damaged:") {
				t.Errorf("%v", err)
			}
			if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, before) {
				t.Errorf("the file was changed: %v", err)
			}
		})
	}
}

// A file of a lower level gets this version's level, and its records stay.
func TestOpen_RaisesTheLevel(t *testing.T) {
	t.Parallel()
	if level.Now == level.First {
		t.Skip("no version reads files of a lower level than that of the first release")
	}
	path, _, want := makeUsedFile(t)
	setLevel(t, path, level.Now-1)
	db := open(t, filepath.Dir(path))
	if got, err := storedText(db); got != want || err != nil {
		t.Errorf("%v, %s", err, got)
	}
	wantLevel(t, db, level.Now)
}

func TestOpen_GivesANewFileItsLevel(t *testing.T) {
	t.Parallel()
	wantLevel(t, open(t, t.TempDir()), level.Now)
}

func TestOpen_MakesADirectoryForItsUserAlone(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "client")
	open(t, dir)
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("other users may read the records: %v, %v", info.Mode(), err)
	}
}
