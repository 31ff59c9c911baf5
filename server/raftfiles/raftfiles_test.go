package raftfiles

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	"golang.org/x/sys/unix"

	"berth/internal/diskfault"
	"berth/structs"
)

const testSegment = 8 << 10

func openFiles(dir string) (*Files, error) {
	id, err := ServerID(dir)
	if err != nil {
		return nil, err
	}
	return Open(Options{
		DataDir: dir, ID: id, SnapshotsKept: 2, SegmentSize: testSegment, Logger: hclog.NewNullLogger(),
		Fatal: func(err error) { panic(err) },
	})
}

func mustOpen(t *testing.T, dir string) *Files {
	t.Helper()
	f, err := openFiles(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func mustClose(t *testing.T, f *Files) {
	t.Helper()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func entry(index uint64) *raft.Log {
	return &raft.Log{
		Index: index, Term: 3, Type: raft.LogCommand, Data: bytes.Repeat([]byte{byte(index)}, 200),
		AppendedAt: time.Unix(1700000000, int64(index)),
	}
}

// appendEntries stores the entries from..to, some alone and some together.
func appendEntries(t *testing.T, f *Files, from, to uint64) {
	t.Helper()
	for i := from; i <= to; {
		var batch []*raft.Log
		for ; i <= to && len(batch) < int(i%4)+1; i++ {
			batch = append(batch, entry(i))
		}
		if err := f.Log.StoreLogs(batch); err != nil {
			t.Fatal(err)
		}
	}
}

func takeSnapshot(t *testing.T, f *Files, index uint64, state string) {
	t.Helper()
	_, transport := raft.NewInmemTransport("")
	servers := raft.Configuration{Servers: []raft.Server{{ID: "a", Address: "127.0.0.1:1"}}}
	sink, err := f.Snapshots.Create(raft.SnapshotVersionMax, index, 3, servers, 1, transport)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(sink, state); err != nil {
		t.Fatal(err)
	}
	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}
}

// used makes a data directory with several segments, cut at both ends, and with two snapshots.
func used(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	f := mustOpen(t, dir)
	appendEntries(t, f, 1, 90)
	for key, value := range map[string]uint64{"CurrentTerm": 3, "LastVoteTerm": 3} {
		if err := f.Log.SetUint64([]byte(key), value); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Log.Set([]byte("LastVoteCand"), []byte("127.0.0.1:1")); err != nil {
		t.Fatal(err)
	}
	takeSnapshot(t, f, 30, strings.Repeat("old state ", 50))
	takeSnapshot(t, f, 50, strings.Repeat("new state ", 50))
	if err := f.Log.DeleteRange(1, 40); err != nil {
		t.Fatal(err)
	}
	if err := f.Log.DeleteRange(86, 90); err != nil {
		t.Fatal(err)
	}
	appendEntries(t, f, 86, 125)
	mustClose(t, f)
	return dir
}

// content returns everything that Raft can read: a text of the log, the stable values and the snapshots.
func content(f *Files) (string, error) {
	var out strings.Builder
	first, err := f.Log.FirstIndex()
	if err != nil {
		return "", err
	}
	last, err := f.Log.LastIndex()
	if err != nil {
		return "", err
	}
	for i := first; i <= last && i > 0; i++ {
		var e raft.Log
		if err := f.Log.GetLog(i, &e); err != nil {
			return "", err
		}
		fmt.Fprintf(&out, "%d %d %d %x %x %d\n", e.Index, e.Term, e.Type, e.Data, e.Extensions, e.AppendedAt.UnixNano())
	}
	for _, key := range stableKeys {
		v, err := f.Log.Get([]byte(key))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&out, "%s %x\n", key, v)
	}
	list, err := f.Snapshots.List()
	if err != nil {
		return "", err
	}
	for _, meta := range list {
		_, r, err := f.Snapshots.Open(meta.ID)
		if err != nil {
			return "", err
		}
		state, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close()); err != nil {
			return "", err
		}
		fmt.Fprintf(&out, "%+v %s\n", meta, state)
	}
	return out.String(), nil
}

func mustContent(t *testing.T, dir string) string {
	t.Helper()
	f := mustOpen(t, dir)
	defer mustClose(t, f)
	text, err := content(f)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// filesOf lists the files below a directory, relative to it.
func filesOf(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			name, _ := filepath.Rel(dir, path)
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// copied returns a copy of a data directory.
func copied(t *testing.T, dir string) string {
	t.Helper()
	to, err := os.MkdirTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}

func edit(t *testing.T, path string, change func([]byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, change(b), 0o600); err != nil {
		t.Fatal(err)
	}
}

// offsets are a stride over a file and random ones.
func offsets(rnd *rand.Rand, size, stride int) (list []int) {
	for i := rnd.IntN(stride); i < size; i += stride {
		list = append(list, i)
	}
	for range 10 {
		list = append(list, rnd.IntN(size))
	}
	return list
}

// TestOpen_RefusesAChangedByte changes one byte at a time in each file. Either Open names the file, or nothing
// that can be read is different.
func TestOpen_RefusesAChangedByte(t *testing.T) {
	t.Parallel()
	dir := used(t)
	want := mustContent(t, dir)
	rnd := random(t)
	to := copied(t, dir)
	for _, name := range filesOf(t, dir) {
		whole, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		refused := 0
		at := offsets(rnd, len(whole), max(1, len(whole)/40))
		for _, offset := range at {
			damaged := bytes.Clone(whole)
			damaged[offset] ^= byte(1 + rnd.IntN(255))
			if refuses(t, to, name, damaged, want) {
				refused++
			} else { // Open has written to it
				to = copied(t, dir)
			}
		}
		if err := os.WriteFile(filepath.Join(to, name), whole, 0o600); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d of %d changes refused", name, refused, len(at))
		if refused == 0 {
			t.Errorf("%s: no change was refused", name)
		}
	}
}

// random is seeded by BERTH_TEST_SEED, so that a failure can be repeated.
func random(t *testing.T) *rand.Rand {
	t.Helper()
	seed, err := strconv.ParseUint(os.Getenv("BERTH_TEST_SEED"), 10, 64)
	if err != nil {
		seed = rand.Uint64()
	}
	t.Logf("BERTH_TEST_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// refuses reports whether Open refuses dir with another content of one file.
func refuses(t *testing.T, dir, name string, damaged []byte, want string) bool {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := openFiles(dir)
	if err != nil {
		named := strings.Contains(err.Error(), filepath.Dir(path)+"/") && strings.Contains(err.Error(), filepath.Base(path))
		if !named || !strings.Contains(err.Error(), "docs/operations.md") {
			t.Errorf("%s: the error does not name the file or the way out: %v", name, err)
		}
		return true
	}
	got, err := content(f)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Errorf("%s: found after the start: %v", name, err)
	}
	if got != want {
		t.Errorf("%s: a change is read as if it were written", name)
	}
	return false
}

// TestOpen_RefusesADamagedLastWrite damages the last write before the server was killed. The damage looks
// like an interrupted write.
func TestOpen_RefusesADamagedLastWrite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := mustOpen(t, dir)
	appendEntries(t, f, 1, 10)
	path, _ := f.Log.meta.segmentOf(10)
	for _, change := range []func(b []byte, at int){
		func(b []byte, at int) { b[at] ^= 1 },
		func(b []byte, at int) { clear(b[at-8:]) },
	} {
		killed := copied(t, dir)
		damaged := filepath.Join(killed, "raft", "wal", filepath.Base(path))
		edit(t, damaged, func(b []byte) []byte {
			change(b, bytes.LastIndex(b, entry(10).Data))
			return b
		})
		if _, err := openFiles(killed); err == nil || !strings.Contains(err.Error(), damaged) {
			t.Errorf("got %v", err)
		}
	}
}

// TestOpen_RefusesACutOrMissingFile cuts and removes each file.
func TestOpen_RefusesACutOrMissingFile(t *testing.T) {
	t.Parallel()
	dir := used(t)
	want := mustContent(t, dir)
	for _, name := range filesOf(t, dir) {
		whole, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, size := range []int{0, 1, len(whole) / 4, len(whole) - 1} {
			// The last segment is not full: a cut in its unused end takes nothing away.
			if !refuses(t, copied(t, dir), name, whole[:size], want) && size < 2 {
				t.Errorf("%s: cut to %d bytes, accepted", name, size)
			}
		}
		to := copied(t, dir)
		if err := os.Remove(filepath.Join(to, name)); err != nil {
			t.Fatal(err)
		}
		f, err := openFiles(to)
		optional := name == markName || filepath.Base(name) == snapshotSum // older versions have none
		if (err == nil) != optional || err != nil && !strings.Contains(err.Error(), filepath.Dir(name)) {
			t.Errorf("%s: removed: %v", name, err)
		}
		if err == nil {
			mustClose(t, f)
		}
	}
}

func TestOpen_RefusesAMissingDirectory(t *testing.T) {
	t.Parallel()
	dir := used(t)
	for _, name := range []string{"raft", "raft/wal", "raft/snapshots"} {
		to := copied(t, dir)
		if err := os.RemoveAll(filepath.Join(to, name)); err != nil {
			t.Fatal(err)
		}
		want := filepath.Join(to, name) + ": it is missing, and this server has had a log"
		if name == "raft/snapshots" {
			want = filepath.Join(to, name) + ": the snapshot of entry 50 is missing"
		}
		if _, err := openFiles(to); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s removed: %v", name, err)
		}
		if name != "raft/snapshots" && exists(filepath.Join(to, "raft/wal/wal-meta.db")) {
			t.Errorf("%s removed: a new log was made", name)
		}
	}
}

func TestOpen_RefusesAMissingSnapshot(t *testing.T) {
	t.Parallel()
	installed := t.TempDir() // a snapshot has replaced the whole log
	f := mustOpen(t, installed)
	appendEntries(t, f, 1, 10)
	takeSnapshot(t, f, 20, "installed")
	mustClose(t, f)
	mustClose(t, mustOpen(t, installed))
	older := used(t) // has no mark
	if err := os.Remove(filepath.Join(older, markName)); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{installed, older} {
		path := filepath.Join(dir, "raft", "snapshots")
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		if _, err := openFiles(dir); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("got %v", err)
		}
	}
}

func TestOpen_KeepsSegmentsWithoutTheirList(t *testing.T) {
	t.Parallel()
	dir := used(t)
	for _, name := range []string{"raft/wal/wal-meta.db", markName} { // as an older version leaves them
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	before := filesOf(t, dir)
	if _, err := openFiles(dir); err == nil || !strings.Contains(err.Error(), "wal-meta.db") {
		t.Errorf("got %v", err)
	}
	if after := filesOf(t, dir); strings.Join(before, " ") != strings.Join(after, " ") {
		t.Errorf("%v, before %v", after, before)
	}
}

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
	dir := used(t)
	id, err := ServerID(dir)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, idName)
	for _, text := range []string{"", structs.NewID(), id + "x"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ServerID(dir); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), id) {
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

// older makes the files of a version that wrote no checksums.
func older(t *testing.T, dir string) {
	t.Helper()
	walDir := filepath.Join(dir, "raft", "wal")
	if err := os.MkdirAll(walDir, 0o700); err != nil {
		t.Fatal(err)
	}
	log, err := wal.Open(walDir, wal.WithSegmentSize(testSegment), wal.WithLogger(hclog.NewNullLogger()))
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(100) {
		if err := log.StoreLog(entry(i + 1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(log.SetUint64([]byte("CurrentTerm"), 3), log.Close()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, idName), []byte(structs.NewID()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestOpen_AcceptsAndCompletesFilesOfAnOlderVersion(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	older(t, dir)
	f := mustOpen(t, dir)
	appendEntries(t, f, 101, 120)
	term, err := f.Log.GetUint64([]byte("CurrentTerm"))
	if err != nil || term != 3 {
		t.Errorf("term %d, %v", term, err)
	}
	mustClose(t, f)
	text := mustContent(t, dir)
	for i := range uint64(120) {
		if !strings.Contains(text, fmt.Sprintf("%d 3 0 %x  %d\n", i+1, entry(i+1).Data, entry(i+1).AppendedAt.UnixNano())) {
			t.Fatalf("entry %d is not as it was", i+1)
		}
	}
	first := filepath.Join(dir, filesOf(t, dir)[0])
	for _, name := range filesOf(t, filepath.Join(dir, "raft", "wal")) {
		first = filepath.Join(dir, "raft", "wal", name) // the first segment, of the older version
		break
	}
	edit(t, first, func(b []byte) []byte { b[100] ^= 1; return b })
	if _, err := openFiles(dir); err == nil || !strings.Contains(err.Error(), first) {
		t.Errorf("an older entry was changed: %v", err)
	}
}

func TestOpen_NamesADamagedListOfAnOlderVersion(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	older(t, dir)
	whole, err := os.ReadFile(filepath.Join(dir, "raft", "wal", metaName))
	if err != nil {
		t.Fatal(err)
	}
	for what, b := range map[string][]byte{
		"empty": {}, "cut": whole[:len(whole)/4], "noise": bytes.Repeat([]byte("noise"), 5000),
		"short": whole[:5000], "pages": append(bytes.Clone(whole[:8192]), make([]byte, len(whole)-8192)...),
	} {
		to := copied(t, dir) // bbolt keeps its lock when it panics
		path := filepath.Join(to, "raft", "wal", metaName)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := openFiles(to); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", what, err)
		}
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
		path, _ := f.Log.meta.segmentOf(10)
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
		edit(t, path, func(b []byte) []byte {
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
	next, _ := f.Log.meta.segmentOf(last + 1)
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
	dir := used(t)
	left := filepath.Join(dir, "raft", "snapshots", "3-60-1.tmp")
	if err := os.MkdirAll(left, 0o700); err != nil {
		t.Fatal(err)
	}
	mustClose(t, mustOpen(t, dir))
	if exists(left) {
		t.Error("it is still there")
	}
}

// TestOpen_NamesAFullDisk fills a separate file system: the server starts on it, and nothing counts as
// damaged.
func TestOpen_NamesAFullDisk(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: mounts a file system")
	}
	t.Parallel()
	for what, from := range map[string]string{"of this version": used(t), "of an older version": olderDir(t)} {
		dir := t.TempDir()
		if err := unix.Mount("none", dir, "tmpfs", 0, "size=1m"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Unmount(dir, 0) })
		if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "filler"), make([]byte, 2<<20), 0o600); !diskfault.NoSpace(err) {
			t.Fatalf("the disk did not fill up: %v", err)
		}
		f, err := openFiles(dir)
		switch {
		case err == nil:
			mustClose(t, f)
		case what == "of this version":
			t.Errorf("%s: %v", what, err)
		case !diskfault.NoSpace(err) || strings.Contains(err.Error(), "remove"):
			t.Errorf("%s: a full disk is taken for damage: %v", what, err)
		}
	}
}

func olderDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	older(t, dir)
	return dir
}

// TestLog_RefusesADamagedEntryAtReading changes a byte while the log is open.
func TestLog_RefusesADamagedEntryAtReading(t *testing.T) {
	t.Parallel()
	dir := used(t)
	f := mustOpen(t, dir)
	var fatal error
	f.Log.fatal = func(err error) { fatal = err }
	f.Log.Serve()
	for _, index := range []uint64{60, 120} { // of a full segment and of the last one
		path, _ := f.Log.meta.segmentOf(index)
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
			if read == nil || fatal == nil || !strings.Contains(fatal.Error(), path) {
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
		t.Errorf("an entry that is not there: %v, %v", err, fatal)
	}
}

// TestLog_RefusesAnotherEntry changes the table of a full segment of an older version, whose entries have no
// checksums.
func TestLog_RefusesAnotherEntry(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	older(t, dir)
	f := mustOpen(t, dir)
	info := f.Log.meta.state().Segments[0]
	path, _ := f.Log.meta.segmentOf(2)
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

func TestTakeSum_CoversEveryField(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(e *raft.Log){
		"nothing": func(*raft.Log) {}, "index": func(e *raft.Log) { e.Index++ },
		"term": func(e *raft.Log) { e.Term++ }, "type": func(e *raft.Log) { e.Type++ },
		"data": func(e *raft.Log) { e.Data[3]++ }, "time": func(e *raft.Log) { e.AppendedAt = e.AppendedAt.Add(1) },
		"extensions": func(e *raft.Log) { e.Extensions[0]++ },
	} {
		e := entry(7)
		e.Extensions = []byte("of another layer")
		e.Extensions = addSum(e)
		change(e)
		if err := takeSum(e); (err == nil) != (what == "nothing") {
			t.Errorf("%s: %v", what, err)
		}
		if string(e.Extensions) != "of another layer" && what == "nothing" {
			t.Errorf("extensions %q", e.Extensions)
		}
	}
}

func FuzzDecodeMark(f *testing.F) {
	f.Add(markRecord{id: structs.NewID(), last: 7, snapshot: 3}.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := decodeMark(b); err == nil && !bytes.Equal(r.encode(), b) {
			t.Fatal("accepted bytes that encode does not make")
		}
	})
}

func FuzzDecodeMeta(f *testing.F) {
	b, err := metaContent{Stable: map[string][]byte{"CurrentTerm": {1}}}.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(metaKind))
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, err := decodeMeta(b); err == nil {
			if _, err := c.encode(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func FuzzScanSegment(f *testing.F) {
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{1, 0, 0, 0, 8, 0, 0, 0}, 20))
	f.Fuzz(func(t *testing.T, b []byte) {
		c := scanSegment(b)
		if c.end > len(b) || len(c.offsets)*frameHeader > len(b) {
			t.Fatalf("%d entries up to %d in %d bytes", len(c.offsets), c.end, len(b))
		}
	})
}

func FuzzDecodeSnapshotMeta(f *testing.F) {
	b, err := json.Marshal(stateMeta{SnapshotMeta: raft.SnapshotMeta{Version: 1, ID: "1-2-3"}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, err := decodeSnapshotMeta(b); err == nil && m.Version != raft.SnapshotVersionMax && m.Version != raft.SnapshotVersionMin {
			t.Fatal("accepted another version")
		}
	})
}
