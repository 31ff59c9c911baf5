package raftfiles

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dustin/go-humanize"
	"github.com/hashicorp/raft"
	"golang.org/x/sys/unix"

	"berth/internal/files"
	"berth/test/kit"
)

// appendUntilRejected appends entries from an index on, and returns the index that was rejected.
func appendUntilRejected(t *testing.T, f *Files, from uint64) (index uint64, err error) {
	t.Helper()
	for index = from; index < from+1000; index++ {
		err = f.Log.StoreLog(entry(index))
		if err != nil {
			return index, err
		}
	}
	t.Fatal("the log on a full disk takes everything")
	return 0, nil
}

// The segment ends while less than another fits, and no less than the list of segments needs.
func TestLog_GoesOnAfterAFullDisk(t *testing.T) {
	for name, left := range map[string]uint64{
		"nothing is free":                       0,
		"a segment does not fit, all else does": testSegment - 4096,
	} {
		t.Run(name, func(t *testing.T) {
			dir := kit.MountDisk(t, "1m")
			f := mustOpen(t, dir)
			appendEntries(t, f, 1, 3)
			free := kit.FillDisk(t, dir, left)

			index, err := appendUntilRejected(t, f, 4)
			if !files.IsNoSpace(err) {
				t.Errorf("the rejection of entry %d is not about space: %v", index, err)
			}
			space := f.Log.TakeSpace()
			if !files.IsNoSpace(space) || !strings.Contains(space.Error(), dir) {
				t.Errorf("TakeSpace on a full disk: got %v, want the folder and its space", space)
			}
			// Raft repeats a rejected entry, and has a term of its own meanwhile.
			for range 3 {
				if err := f.Log.StoreLog(entry(index)); !files.IsNoSpace(err) {
					t.Errorf("the entry again: got %v", err)
				}
				check(t, f.Log.SetUint64([]byte(termKey), index))
			}

			free()
			check(t, f.Log.TakeSpace())
			appendEntries(t, f, index, index+100)
			want, err := content(f)
			check(t, err)
			mustClose(t, f)
			if got := mustContent(t, dir); got != want {
				t.Error("a restart reads something else")
			}
		})
	}
}

// A server that is killed on a full disk starts on it, and goes on when there is space.
func TestOpen_OfAFullDiskGoesOnWithSpace(t *testing.T) {
	dir := kit.MountDisk(t, "1m")
	f := mustOpen(t, dir)
	free := kit.FillDisk(t, dir, 0)
	index, _ := appendUntilRejected(t, f, 1)
	mustClose(t, f)

	f = mustOpen(t, dir)
	check(t, f.Log.SetUint64([]byte(termKey), 7))
	if again, err := appendUntilRejected(t, f, index); again != index || !files.IsNoSpace(err) {
		t.Errorf("rejected entry %d, then %d, %v", index, again, err)
	}
	free()
	appendEntries(t, f, index, index+100)
}

// A truncation of the end of the log on a full disk changes nothing, or all of it.
func TestDeleteRange_OnAFullDiskChangesNothing(t *testing.T) {
	dir := kit.MountDisk(t, "1m")
	f := mustOpen(t, dir)
	appendEntries(t, f, 1, 20)
	free := kit.FillDisk(t, dir, 0)
	for range 2 {
		if err := f.Log.DeleteRange(11, 20); !files.IsNoSpace(err) {
			t.Errorf("got %v", err)
		}
	}
	if last, err := f.Log.LastIndex(); last != 20 || err != nil {
		t.Errorf("last %d, %v", last, err)
	}
	if err := f.Log.NewSegment(); !files.IsNoSpace(err) {
		t.Errorf("NewSegment: got %v", err)
	}

	free()
	check(t, f.Log.DeleteRange(11, 20))
	appendEntries(t, f, 11, 60)
	mustClose(t, f)
	mustContent(t, dir)
}

// The spare has the inode of the next segment.
func TestLog_GoesOnWithoutInodes(t *testing.T) {
	dir := kit.MountDisk(t, "4m,nr_inodes=40")
	f := mustOpen(t, dir)
	var fillers []string
	for i := 0; ; i++ {
		path := filepath.Join(dir, "filler", strings.Repeat("x", i+1))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o600)); err != nil {
			break
		}
		fillers = append(fillers, path)
	}
	index, err := appendUntilRejected(t, f, 1)
	if !files.IsNoSpace(err) || !strings.Contains(err.Error(), "takes no more files") {
		t.Errorf("entry %d: got %v, want the inodes", index, err)
	}
	for _, path := range fillers {
		check(t, os.Remove(path))
	}
	appendEntries(t, f, index, index+100)
	mustClose(t, f)
	mustContent(t, dir)
}

// A list of segments that outgrows its slots gets larger ones.
func TestMetaStore_GrowsItsSlots(t *testing.T) {
	dir := t.TempDir()
	f := mustOpen(t, dir)
	appendEntries(t, f, 1, 3000)
	if n := len(f.Log.meta.state().Segments); n < 70 {
		t.Fatalf("only %d segments", n)
	}
	check(t, f.Log.SetUint64([]byte(termKey), 9))
	want, err := content(f)
	check(t, err)
	mustClose(t, f)
	if got := mustContent(t, dir); got != want {
		t.Error("a restart reads something else")
	}
}

// A write that stopped between the slots counts, and one within a slot does not.
func TestLoadMeta_AfterAnInterruptedWrite(t *testing.T) {
	dir := t.TempDir()
	f := mustOpen(t, dir)
	check(t, f.Log.SetUint64([]byte(termKey), 5))
	path := f.Log.meta.path
	slot := f.Log.meta.slot
	before, err := os.ReadFile(path)
	check(t, err)
	check(t, f.Log.SetUint64([]byte(termKey), 6))
	after, err := os.ReadFile(path)
	check(t, err)
	mustClose(t, f)

	for name, c := range map[string]struct {
		first []byte
		want  uint64
	}{
		"within the first": {append(after[:50:50], before[50:slot]...), 5},
		"between them":     {after[:slot], 6},
	} {
		check(t, os.WriteFile(path, append(c.first[:slot:slot], before[slot:]...), 0o600))
		f = mustOpen(t, dir)
		if term, err := f.Log.GetUint64([]byte(termKey)); term != c.want || err != nil {
			t.Errorf("%s: term %d, %v; want %d", name, term, err, c.want)
		}
		mustClose(t, f)
	}
}

// A term waits for space where its file has none, and ends with the server.
func TestSetStable_WaitsForSpaceAndEndsWithTheServer(t *testing.T) {
	dir := kit.MountDisk(t, "1m")
	f := mustOpen(t, dir)
	// Without the file a write has to make it, as on a file system that copies at each write.
	check(t, os.Remove(f.Log.meta.path))
	check(t, f.Log.meta.file.Close())
	f.Log.meta.file = nil
	kit.FillDisk(t, dir, 0)

	term, vote := make(chan error), make(chan error)
	go func() {
		term <- f.Log.SetUint64([]byte(termKey), 7)
		vote <- f.Log.SetUint64([]byte("LastVoteTerm"), 7)
	}()
	for f.Log.meta.waits() == nil {
		select {
		case err := <-term:
			t.Fatalf("did not wait: %v", err)
		default:
		}
	}
	if err := f.Log.TakeSpace(); !files.IsNoSpace(err) {
		t.Errorf("TakeSpace: got %v", err)
	}
	f.Log.StopWaiting()
	if err := <-term; err != nil {
		t.Errorf("Raft would panic: %v", err)
	}
	if err := <-vote; !files.IsNoSpace(err) {
		t.Errorf("a vote that is not stored: got %v", err)
	}
}

// A snapshot that does not fit gives its space back: the log may need it.
func TestSnapshot_OnAFullDiskLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, left := range map[string]uint64{"its state does not fit": 256 << 10, "nothing fits": 0} {
		dir := kit.MountDisk(t, "8m")
		f := mustOpen(t, dir)
		free := kit.FillDisk(t, dir, left)
		before, _ := freeBytes(dir)
		_, transport := raft.NewInmemTransport("")
		s, err := f.Snapshots.Create(raft.SnapshotVersionMax, 7, 2, raft.Configuration{}, 1, transport)
		if err == nil {
			for page := make([]byte, 64<<10); err == nil; {
				_, err = s.Write(page)
			}
			if err := s.Cancel(); err != nil {
				t.Log(name, "the end of the snapshot:", err)
			}
		}
		if !files.IsNoSpace(err) {
			t.Errorf("%s: %v", name, err)
		}
		found, err := filepath.Glob(filepath.Join(dir, "raft", "snapshots", "*"))
		check(t, err)
		after, _ := freeBytes(dir)
		if len(found) > 0 || after != before {
			t.Errorf("%s: %d of %d bytes are free, and there are %q", name, after, before, found)
		}
		free()
		mustClose(t, f)
	}
}

// A server that is not root warns while the space that is left is that of root.
func TestLowSpace_LeavesOutWhatIsForRoot(t *testing.T) {
	dir := kit.MountReservedDisk(t)
	var st unix.Statfs_t
	check(t, unix.Statfs(dir, &st))
	all := int64(st.Bfree) * st.Bsize
	others := int64(st.Bavail) * st.Bsize
	segment := others + (all-others)/2
	s, err := openSpace(dir, int(segment))
	check(t, err)
	defer func() { check(t, s.close()) }()

	check(t, s.low())
	kit.AsNobody(t, func() { err = s.low() })
	left := humanize.IBytes(uint64(others)) + " free"
	if !files.IsNoSpace(err) || !strings.Contains(err.Error(), left) {
		t.Errorf("a user that may use %d of %d bytes, for a segment of %d: %v, want %q",
			others, all, segment, err, left)
	}
}
