package raftfiles

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/hashicorp/raft-wal/segment"
)

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

// TestGetLog_DistinguishesATooLargeEntryFromDamage: an older version has written it, and its file is whole.
func TestGetLog_DistinguishesATooLargeEntryFromDamage(t *testing.T) {
	dir := t.TempDir()
	f := mustOpen(t, dir)
	appendEntries(t, f, 1, 100)
	if err := f.Log.WAL.StoreLogs([]*raft.Log{entry(101), oversized(102), entry(103)}); err != nil {
		t.Fatal(err)
	}
	f.Log.mark.raiseLast(103)
	for range 2 {
		err := f.Log.GetLog(102, &raft.Log{})
		text := fmt.Sprint(err)
		if !strings.Contains(text, "the log entry 102 has 671088") || !strings.Contains(text, "raft/wal/0000") ||
			strings.Contains(text, "102 is damaged") {
			t.Errorf("got error: %s", text)
		}
		for _, i := range []uint64{1, 100, 101, 103} {
			if err := f.Log.GetLog(i, &raft.Log{}); err != nil {
				t.Errorf("entry %d: %v", i, err)
			}
		}
		mustClose(t, f)
		f = mustOpen(t, dir)
	}
}
