package raftfiles

import (
	"strings"
	"testing"
)

func TestLog_CountsTheBytesBehindTheSnapshot(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := mustOpen(t, dir)
	each := int64(recordSize(entry(1)))
	about := func(when string, entries int64) {
		t.Helper()
		got := f.Log.BytesBehind()
		if got < each*entries*2/3 || got > each*entries*4/3 {
			t.Errorf("%s: %d bytes are behind; want about %d", when, got, each*entries)
		}
	}
	about("of an empty log", 0)
	appendEntries(t, f, 1, 90)
	about("of 90 entries", 90)
	takeSnapshot(t, f, 90, strings.Repeat("state ", 50))
	about("after a snapshot", 0)
	appendEntries(t, f, 91, 120)
	about("of 30 more", 30)
	mustClose(t, f)
	f = mustOpen(t, dir)
	about("after a restart", 30)
	mustClose(t, f)

	if n, err := f.NewestSnapshot(); n != 300 || err != nil {
		t.Errorf("the snapshot has %d bytes, %v", n, err)
	}
}
