package raftfiles

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"berth/structs"
)

func TestOpen_StartsANewDirectoryAndKeepsItsID(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	mustClose(t, mustOpen(t, dir))
	first, err := ServerID(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "raft")); err != nil { // nothing was in it
		t.Fatal(err)
	}
	mustClose(t, mustOpen(t, dir))
	if second, err := ServerID(dir); second != first || err != nil {
		t.Errorf("%s, then %s, %v", first, second, err)
	}
}

func TestServerID_NamesTheIDOfItsLog(t *testing.T) {
	t.Parallel()
	dir := usedDir(t)
	id, err := ServerID(dir)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, idName)
	for _, text := range []string{"", structs.NewID(), id + "x"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ServerID(dir); err == nil || !strings.Contains(err.Error(), path) ||
			!strings.Contains(err.Error(), id) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if err := os.WriteFile(path, []byte(id+"\n"), 0o600); err != nil { // as the error says
		t.Fatal(err)
	}
	if again, err := ServerID(dir); again != id || err != nil {
		t.Errorf("%s, %v", again, err)
	}
}

// TestOpen_DropsAnInterruptedWrite cuts the last write, which was not acknowledged.
func TestOpen_DropsAnInterruptedWrite(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"cut", "mixed", "a frame of another kind"} {
		dir := t.TempDir()
		f := mustOpen(t, dir)
		appendEntries(t, f, 1, 10)
		keep := f.Log.mark.record
		path := f.Log.meta.segmentOf(10)
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Log.StoreLogs([]*raft.Log{entry(11), entry(12), entry(13)}); err != nil {
			t.Fatal(err)
		}
		mustClose(t, f)
		if err := os.WriteFile(filepath.Join(dir, markName), keep.encode(), 0o600); err != nil {
			t.Fatal(err)
		}
		editFile(t, path, func(b []byte) []byte {
			end := scanSegment(before).end
			switch what {
			case "cut": // the second entry and the commit have not come
				clear(b[end+300:])
			case "mixed": // a sector between has not come
				clear(b[end+250 : end+300])
			default: // raft-wal would take the segment for full
				clear(b[end:])
				b[end] = frameIndex
			}
			return b
		})
		f = mustOpen(t, dir)
		if last, err := f.Log.LastIndex(); last != 10 || err != nil {
			t.Fatalf("%s: last %d, %v", what, last, err)
		}
		appendEntries(t, f, 11, 11) // shorter than the dropped one
		mustClose(t, f)
		f = mustOpen(t, dir)
		if last, err := f.Log.LastIndex(); last != 11 || err != nil {
			t.Errorf("%s: last %d after one more, %v", what, last, err)
		}
		mustClose(t, f)
	}
}

// TestOpen_FinishesAFullSegment stops between the last write to a segment and the record that it is full.
func TestOpen_FinishesAFullSegment(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := mustOpen(t, dir)
	list := filepath.Join(dir, "raft", "wal", metaName)
	var before []byte
	last := uint64(0)
	for ; len(f.Log.meta.state().Segments) < 2; last++ {
		before, _ = os.ReadFile(list)
		if err := f.Log.StoreLog(entry(last + 1)); err != nil {
			t.Fatal(err)
		}
		f.Log.WAL.DeleteRange(0, 0) // waits for the list to be written
	}
	mustClose(t, f)
	next := f.Log.meta.segmentOf(last + 1)
	if err := errors.Join(os.WriteFile(list, before, 0o600), os.Remove(next)); err != nil {
		t.Fatal(err)
	}
	f = mustOpen(t, dir)
	appendEntries(t, f, last+1, last+20)
	mustClose(t, f)
	mustContent(t, dir)
}

func TestOpen_RemovesALogThatASnapshotReplaced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := mustOpen(t, dir)
	appendEntries(t, f, 1, 10)
	takeSnapshot(t, f, 20, "installed")
	mustClose(t, f)
	f = mustOpen(t, dir)
	appendEntries(t, f, 21, 25)
	mustClose(t, f)
	if text := mustContent(t, dir); !strings.HasPrefix(text, "21 ") {
		t.Errorf("the log begins with %.40s", text)
	}
}

func TestOpen_RemovesUnfinishedSnapshots(t *testing.T) {
	t.Parallel()
	dir := usedDir(t)
	left := filepath.Join(dir, "raft", "snapshots", "3-60-1.tmp")
	if err := os.MkdirAll(left, 0o700); err != nil {
		t.Fatal(err)
	}
	mustClose(t, mustOpen(t, dir))
	if pathExists(left) {
		t.Error("snapshot still exists")
	}
}
