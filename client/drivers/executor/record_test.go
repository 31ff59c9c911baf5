package executor

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"berth/internal/process"
)

func testRecord() *record {
	return &record{
		TaskID:     "a1/web",
		Driver:     "exec",
		Boot:       "b",
		Supervisor: process.Ref{PID: 4242},
		Task:       process.Ref{PID: 4243},
	}
}

// TestReadRecord_RejectsAChangedByte changes each byte of a record.
func TestReadRecord_RejectsAChangedByte(t *testing.T) {
	dir := t.TempDir()
	if err := testRecord().writeRecord(dir); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, recordFile)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rejected := 0
	for i := range whole {
		damaged := bytes.Clone(whole)
		damaged[i] ^= 1
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := readRecord(dir)
		switch {
		case err != nil && !strings.Contains(err.Error(), path):
			t.Errorf("byte %d: the error does not name %s: %v", i, path, err)
		case err != nil:
			rejected++
		case !reflect.DeepEqual(got, testRecord()):
			t.Errorf("byte %d: got the record %+v, want an error", i, got)
		}
	}
	if rejected < len(whole) {
		t.Errorf("readRecord rejected %d of %d changes", rejected, len(whole))
	}
}

func TestReadRecord_RejectsOneWithoutAChecksum(t *testing.T) {
	dir := t.TempDir()
	b, err := json.Marshal(testRecord())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, recordFile), b, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readRecord(dir); !errors.Is(err, errDamaged) {
		t.Errorf("got %v", err)
	}
}

// TestReadRecord_TakesAnEmptyOneForNone: a record is not written to the disk at once.
func TestReadRecord_TakesAnEmptyOneForNone(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, recordFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := readRecord(dir)
	if got != nil || err != nil {
		t.Errorf("got %+v, %v", got, err)
	}
}

// TestAwaitRecord_TakesADamagedOneOfAnEarlierBootForNone: a power cut leaves a part of a record, or zeros.
func TestAwaitRecord_TakesADamagedOneOfAnEarlierBootForNone(t *testing.T) {
	whole, err := encodeSummed(testRecord())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{
		"zeros": make([]byte, len(whole)),
		"half":  whole[:len(whole)/2],
	} {
		t.Run(name, func(t *testing.T) {
			task := &task{dir: t.TempDir()}
			path := filepath.Join(task.dir, recordFile)
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := task.awaitRecord(t.Context()); err == nil {
				t.Error("a damaged record of this boot was accepted")
			}
			early := time.Unix(1e9, 0)
			if err := os.Chtimes(path, early, early); err != nil {
				t.Fatal(err)
			}
			r, err := task.awaitRecord(t.Context())
			if r != nil || err != nil {
				t.Errorf("of an earlier boot: got %+v, %v, want none", r, err)
			}
			lock, err := takeLock(task.dir)
			if err != nil || lock == nil {
				t.Fatal(lock, err)
			}
			defer lock.Close()
			if _, err := task.awaitRecord(t.Context()); err == nil {
				t.Error("a damaged record of a supervisor that lives was accepted")
			}
		})
	}
}

func FuzzDecodeSummed(f *testing.F) {
	b, err := encodeSummed(testRecord())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte("{}  "))
	f.Fuzz(func(t *testing.T, b []byte) { _ = decodeSummed(b, &record{}) })
}
