package raftfiles

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/files"
	"berth/test/kit"
)

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

// TestOpen_RejectsAChangedByte changes one byte at a time in each file. Either Open names the file, or
// nothing that can be read is different.
func TestOpen_RejectsAChangedByte(t *testing.T) {
	t.Parallel()
	dir := usedDir(t)
	want := mustContent(t, dir)
	rnd := random(t)
	to := copyDir(t, dir)
	for _, name := range filesOf(t, dir) {
		whole, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		rejected := 0
		at := offsets(rnd, len(whole), max(1, len(whole)/40))
		for _, offset := range at {
			damaged := bytes.Clone(whole)
			damaged[offset] ^= byte(1 + rnd.IntN(255))
			if rejects(t, to, name, damaged, want) {
				rejected++
			} else { // Open has written to it
				to = copyDir(t, dir)
			}
		}
		if err := os.WriteFile(filepath.Join(to, name), whole, 0o600); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d of %d changes rejected", name, rejected, len(at))
		// Its two slots have the same content, so one of them is enough.
		mirrored := filepath.Base(name) == metaName
		if rejected == 0 && !mirrored ||
			rejected > 0 && mirrored {
			t.Errorf("%s: %d changes were rejected", name, rejected)
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

// rejects reports whether Open rejects dir with another content of one file.
func rejects(t *testing.T, dir, name string, damaged []byte, want string) bool {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := openFiles(dir)
	if err != nil {
		named := strings.Contains(err.Error(), filepath.Dir(path)+"/") &&
			strings.Contains(err.Error(), filepath.Base(path))
		if !named || !strings.Contains(err.Error(), "docs/operations/") {
			t.Errorf("%s: the error does not name the file or the way out: %v", name, err)
		}
		return true
	}
	got, err := content(f)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Errorf("%s: found only after the start: %v", name, err)
	}
	if got != want {
		t.Errorf("%s: a changed byte is read without an error", name)
	}
	return false
}

// TestSnapshots_RejectAChangedMetaAtReading changes one byte at a time while the files are open.
func TestSnapshots_RejectAChangedMetaAtReading(t *testing.T) {
	t.Parallel()
	store := mustOpen(t, usedDir(t)).Snapshots
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	all, err := store.List()
	must(err)
	path := filepath.Join(store.(*snapshots).dir, all[0].ID, snapshotMeta)
	whole, err := os.ReadFile(path)
	must(err)
	rnd := random(t)
	for _, offset := range offsets(rnd, len(whole), 7) {
		damaged := bytes.Clone(whole)
		damaged[offset] ^= byte(1 + rnd.IntN(255))
		must(os.WriteFile(path, damaged, 0o600))
		_, err := store.List()
		if err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("byte %d: %v", offset, err)
		}
	}
	must(os.WriteFile(path, whole, 0o600))
	_, state, err := store.Open(all[0].ID)
	must(err)
	must(state.Close())
}

// TestOpen_RejectsADamagedLastWrite damages the last write before the server was killed. The damage looks
// like an interrupted write.
func TestOpen_RejectsADamagedLastWrite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := mustOpen(t, dir)
	appendEntries(t, f, 1, 10)
	path := f.Log.meta.segmentOf(10)
	for _, change := range []func(b []byte, at int){
		func(b []byte, at int) { b[at] ^= 1 },
		func(b []byte, at int) { clear(b[at-8:]) },
	} {
		killed := copyDir(t, dir)
		damaged := filepath.Join(killed, "raft", "wal", filepath.Base(path))
		editFile(t, damaged, func(b []byte) []byte {
			change(b, bytes.LastIndex(b, entry(10).Data))
			return b
		})
		if _, err := openFiles(killed); err == nil || !strings.Contains(err.Error(), damaged) {
			t.Errorf("got %v", err)
		}
	}
}

// TestOpen_RejectsACutOrMissingFile cuts and removes each file.
func TestOpen_RejectsACutOrMissingFile(t *testing.T) {
	t.Parallel()
	dir := usedDir(t)
	want := mustContent(t, dir)
	for _, name := range filesOf(t, dir) {
		whole, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, size := range []int{0, 1, len(whole) / 4, len(whole) - 1} {
			// The last segment is not full: a cut in its unused end takes nothing away.
			if !rejects(t, copyDir(t, dir), name, whole[:size], want) && size < 2 {
				t.Errorf("%s: cut to %d bytes, accepted", name, size)
			}
		}
		to := copyDir(t, dir)
		if err := os.Remove(filepath.Join(to, name)); err != nil {
			t.Fatal(err)
		}
		f, err := openFiles(to)
		optional := filepath.Base(name) == snapshotSum // a stop before its end leaves none
		if (err == nil) != optional ||
			err != nil &&
				!strings.Contains(err.Error(), filepath.Dir(name)) {
			t.Errorf("%s: removed: %v", name, err)
		}
		if err == nil {
			mustClose(t, f)
		}
	}
}

func TestOpen_RejectsAMissingDirectory(t *testing.T) {
	t.Parallel()
	dir := usedDir(t)
	for _, name := range []string{"raft", "raft/wal", "raft/snapshots"} {
		to := copyDir(t, dir)
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
		if name != "raft/snapshots" && pathExists(filepath.Join(to, "raft/wal/wal-meta.db")) {
			t.Errorf("%s removed: a new log was made", name)
		}
	}
}

func TestOpen_RejectsAMissingSnapshot(t *testing.T) {
	t.Parallel()
	installed := t.TempDir() // a snapshot has replaced the whole log
	f := mustOpen(t, installed)
	appendEntries(t, f, 1, 10)
	takeSnapshot(t, f, 20, "installed")
	mustClose(t, f)
	mustClose(t, mustOpen(t, installed))
	path := filepath.Join(installed, "raft", "snapshots")
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	if _, err := openFiles(installed); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v", err)
	}
}

func TestOpen_KeepsSegmentsWithoutTheirList(t *testing.T) {
	t.Parallel()
	dir := usedDir(t)
	if err := os.Remove(filepath.Join(dir, "raft/wal/wal-meta.db")); err != nil {
		t.Fatal(err)
	}
	before := filesOf(t, dir)
	if _, err := openFiles(dir); err == nil || !strings.Contains(err.Error(), "wal-meta.db") {
		t.Errorf("got %v", err)
	}
	if after := filesOf(t, dir); strings.Join(before, " ") != strings.Join(after, " ") {
		t.Errorf("%v, before %v", after, before)
	}
}

// TestOpen_NamesAFullDisk fills a separate file system: the server starts on it, and nothing counts as
// damaged.
func TestOpen_NamesAFullDisk(t *testing.T) {
	if os.Getuid() != 0 {
		kit.SkipLacking(t, "root: mounts a file system")
	}
	t.Parallel()
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, 0) })
	if err := os.CopyFS(dir, os.DirFS(usedDir(t))); err != nil {
		t.Fatal(err)
	}
	err := os.WriteFile(filepath.Join(dir, "filler"), make([]byte, 2<<20), 0o600)
	if !files.IsNoSpace(err) {
		t.Fatalf("disk is not full: %v", err)
	}
	mustClose(t, mustOpen(t, dir))
}
