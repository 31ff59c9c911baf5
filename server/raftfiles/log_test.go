package raftfiles

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/hashicorp/raft-wal/segment"
)

// TestLog_RejectsADamagedEntryAtReading changes a byte while the log is open.
func TestLog_RejectsADamagedEntryAtReading(t *testing.T) {
	t.Parallel()
	dir := usedDir(t)
	f := mustOpen(t, dir)
	var fatal error
	f.Log.fatal = func(err error) { fatal = err }
	f.Log.Serve()
	for _, index := range []uint64{60, 120} { // of a full segment and of the last one
		path := f.Log.meta.segmentOf(index)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		at := bytes.Index(b, entry(index).Data)
		for _, offset := range []int{-6, -5, -4, -3, -2, -1, 0, 100, 199, 201, 205, 212} {
			file, err := os.OpenFile(path, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			var got raft.Log
			fatal = nil
			_, err = file.WriteAt([]byte{b[at+offset] ^ 4}, int64(at+offset))
			read := f.Log.GetLog(index, &got)
			_, err2 := file.WriteAt([]byte{b[at+offset]}, int64(at+offset))
			if err := errors.Join(err, err2, file.Close()); err != nil {
				t.Fatal(err)
			}
			if read == nil || fatal == nil ||
				!strings.Contains(fatal.Error(), path) {
				t.Errorf("entry %d, byte %d: %v, %v", index, offset, read, fatal)
			}
			if err := f.Log.GetLog(index, &got); err != nil {
				t.Fatal(err)
			}
		}
	}
	var none raft.Log
	fatal = nil
	if err := f.Log.GetLog(999, &none); err != raft.ErrLogNotFound || fatal != nil {
		t.Errorf("missing entry: %v, %v", err, fatal)
	}
}

// TestLog_RejectsAnotherEntry changes the table of a full segment.
func TestLog_RejectsAnotherEntry(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := mustOpen(t, dir)
	appendEntries(t, f, 1, 100)
	mustClose(t, f) // an open log knows where the entries are that it wrote
	f = mustOpen(t, dir)
	info := f.Log.meta.state().Segments[0]
	path := f.Log.meta.segmentOf(2)
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	offset := make([]byte, 4)
	_, err = file.ReadAt(offset, int64(info.IndexStart))
	_, err2 := file.WriteAt(offset, int64(info.IndexStart)+4)
	if err := errors.Join(err, err2, file.Close()); err != nil {
		t.Fatal(err)
	}
	var got raft.Log
	if err := f.Log.GetLog(2, &got); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("got entry %d, %v", got.Index, err)
	}
}

func TestRemoveSum_CoversEveryField(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(e *raft.Log){
		"nothing": func(*raft.Log) {}, "index": func(e *raft.Log) { e.Index++ },
		"term": func(e *raft.Log) { e.Term++ }, "type": func(e *raft.Log) { e.Type++ },
		"data": func(e *raft.Log) { e.Data[3]++ }, "time": func(e *raft.Log) { e.AppendedAt = e.AppendedAt.Add(1) },
		"extensions":     func(e *raft.Log) { e.Extensions[0]++ },
		"all extensions": func(e *raft.Log) { e.Extensions = nil },
	} {
		e := entry(7)
		e.Extensions = []byte("of another layer")
		e.Extensions = addSum(e)
		change(e)
		if err := removeSum(e); (err == nil) != (what == "nothing") {
			t.Errorf("%s: %v", what, err)
		}
		if string(e.Extensions) != "of another layer" && what == "nothing" {
			t.Errorf("extensions %q", e.Extensions)
		}
	}
}

// oversized is an entry that raft-wal writes and does not read.
func oversized(index uint64) *raft.Log {
	e := entry(index)
	e.Data = make([]byte, segment.MaxEntrySize+1)
	return e
}

func TestStoreLogs_RejectsUnreadableEntries(t *testing.T) {
	dir := t.TempDir()
	f := mustOpen(t, dir)
	appendEntries(t, f, 1, 3)
	err := f.Log.StoreLogs([]*raft.Log{entry(4), oversized(5)})
	if err == nil || !strings.Contains(err.Error(), "the log entry 5 has ") {
		t.Errorf("entry is stored: %v", err)
	}
	large := entry(4)
	large.Data = make([]byte, segment.MaxEntrySize-recordOverhead-sumSize)
	if err := f.Log.StoreLogs([]*raft.Log{large}); err != nil {
		t.Errorf("the largest entry: %v", err)
	}
	appendEntries(t, f, 5, 6)
	mustClose(t, f)
	f = mustOpen(t, dir)
	for i := uint64(1); i <= 6; i++ {
		if err := f.Log.GetLog(i, &raft.Log{}); err != nil {
			t.Errorf("entry %d: %v", i, err)
		}
	}
}
