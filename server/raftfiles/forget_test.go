package raftfiles

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"
)

var testSecret = []byte("c4n4ry-of-the-log")

// inFiles returns the names of the files below dir that have the secret.
func inFiles(t *testing.T, dir string) (names []string) {
	t.Helper()
	for _, name := range filesOf(t, dir) {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(b, testSecret) {
			names = append(names, name)
		}
	}
	return names
}

// secretDir opens a log whose entries up to 10 have a secret, with two snapshots that have it, too.
func secretDir(t *testing.T) (string, *Files) {
	t.Helper()
	dir := t.TempDir()
	f := mustOpen(t, dir)
	for i := uint64(1); i <= 10; i++ {
		e := entry(i)
		e.Data = testSecret
		if err := f.Log.StoreLog(e); err != nil {
			t.Fatal(err)
		}
	}
	takeSnapshot(t, f, 5, string(testSecret))
	takeSnapshot(t, f, 8, string(testSecret))
	return dir, f
}

func TestNewSegment_LetsOldEntriesGoWhileNewOnesStay(t *testing.T) {
	t.Parallel()
	dir, f := secretDir(t)
	if got := len(inFiles(t, dir)); got != 3 {
		t.Fatalf("%d files have the secret, want the segment and two snapshots", got)
	}
	f.Log.NewSegment()
	appendEntries(t, f, 11, 14)
	if f.Log.newSegment.Load() {
		t.Error("every append begins a segment")
	}
	takeSnapshot(t, f, 12, "new")
	if err := f.Log.DeleteRange(1, 10); err != nil {
		t.Fatal(err)
	}
	newest, err := f.KeepNewest()
	if err != nil || newest != 12 {
		t.Errorf("the newest snapshot is %d, %v", newest, err)
	}
	if names := inFiles(t, dir); len(names) > 0 {
		t.Errorf("%v still have the secret", names)
	}
	if oldest := f.Log.OldestEntry(); oldest != 11 {
		t.Errorf("the oldest entry on the disk is %d, want 11", oldest)
	}
	mustClose(t, f)
	again := mustOpen(t, dir)
	for i := uint64(11); i <= 14; i++ {
		e := raft.Log{}
		if err := again.Log.GetLog(i, &e); err != nil || !bytes.Equal(e.Data, entry(i).Data) {
			t.Errorf("entry %d: %v", i, err)
		}
	}
}

func TestNewSegment_IsNotNeededForAnEmptyLog(t *testing.T) {
	t.Parallel()
	dir, f := secretDir(t)
	f.Log.NewSegment()
	takeSnapshot(t, f, 10, "new")
	if err := f.Log.DeleteRange(1, 10); err != nil {
		t.Fatal(err)
	}
	if _, err := f.KeepNewest(); err != nil {
		t.Fatal(err)
	}
	if names := inFiles(t, dir); len(names) > 0 || f.Log.OldestEntry() != 11 {
		t.Errorf("%v still have the secret; the oldest entry is %d", names, f.Log.OldestEntry())
	}
	appendEntries(t, f, 11, 12)
	mustClose(t, f)
	again := mustOpen(t, dir)
	if last, err := again.Log.LastIndex(); err != nil || last != 12 {
		t.Errorf("the log ends at %d, %v", last, err)
	}
}

// A crash after the cut loses only the entry that nobody has an answer to.
func TestNewSegment_KeepsAcknowledgedEntriesAtACrash(t *testing.T) {
	t.Parallel()
	dir, f := secretDir(t)
	if err := f.Log.beginSegment(entry(11)); err != nil {
		t.Fatal(err)
	}
	again := mustOpen(t, copyDir(t, dir))
	if last, err := again.Log.LastIndex(); err != nil || last != 10 {
		t.Errorf("the log ends at %d, %v; want 10", last, err)
	}
	appendEntries(t, again, 11, 13)
}

func TestForgotten_IsKeptInTheDataDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if got, err := Forgotten(dir); got != 0 || err != nil {
		t.Errorf("got %d, %v", got, err)
	}
	if err := SetForgotten(dir, 42); err != nil {
		t.Fatal(err)
	}
	if got, err := Forgotten(dir); got != 42 || err != nil {
		t.Errorf("got %d, %v", got, err)
	}
	if err := os.WriteFile(filepath.Join(dir, forgottenName), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Forgotten(dir); err == nil {
		t.Error("a file without an index was accepted")
	}
}
