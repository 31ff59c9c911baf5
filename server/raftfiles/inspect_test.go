package raftfiles

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"berth/structs"
)

// stopped makes the files of a server that has stopped: those of usedDir, with the lock.
func stopped(t *testing.T) string {
	t.Helper()
	dir := usedDir(t)
	unlock(t, dir)
	return dir
}

// unlock leaves the file of the lock as the end of a server does.
func unlock(t *testing.T, dir string) {
	t.Helper()
	lock, err := LockDir(dir)
	if err == nil {
		err = lock.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestInspect_TellsWhatTheFilesHaveAndChangesNone(t *testing.T) {
	t.Parallel()
	dir := stopped(t)
	before := readAll(t, dir)
	var got []string
	info, err := Inspect(dir, func(e *raft.Log) error {
		got = append(got, fmt.Sprintf("%d %d %d %x %x %d\n", e.Index, e.Term, e.Type, e.Data, e.Extensions,
			e.AppendedAt.UnixNano()))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if readAll(t, dir) != before {
		t.Error("the files have changed")
	}

	log := LogInfo{First: 41, FirstTerm: 3, Last: 125, LastTerm: 3, Segments: info.Log.Segments, Bytes: 85 * 200}
	if info.Log != log || log.Segments < 2 || info.Term != 3 || info.Level == 0 || info.DataDir != dir {
		t.Errorf("got %+v", info)
	}
	id, err := ServerID(dir)
	if err != nil || info.ServerID != id {
		t.Errorf("the server is %q, want %q: %v", info.ServerID, id, err)
	}
	servers := []Member{{ID: "a", Address: "127.0.0.1:1", Suffrage: "Voter"}}
	if !slices.Equal(info.Servers, servers) || info.ConfigIndex != 1 {
		t.Errorf("the servers of %d are %v", info.ConfigIndex, info.Servers)
	}
	if len(info.Snapshots) != 2 || info.Snapshots[0].Index != 50 || info.Snapshots[1].Index != 30 ||
		info.Snapshots[0].Term != 3 || info.Snapshots[0].Bytes != 500 {
		t.Errorf("the snapshots are %+v", info.Snapshots)
	}
	if want := mustContent(t, dir); len(got) != 85 || !strings.HasPrefix(want, strings.Join(got, "")) {
		t.Errorf("%d entries are not those that Raft reads", len(got))
	}
}

// The newest configuration is in the log. The directory is that of the agent.
func TestInspect_FindsTheNewestServers(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	dir := filepath.Join(parent, "server")
	err := os.Mkdir(dir, 0o700)
	if err != nil {
		t.Fatal(err)
	}
	f := mustOpen(t, dir)
	appendEntries(t, f, 1, 3)
	for index, name := range map[uint64]string{4: "b"} {
		e := entry(index)
		e.Type = raft.LogConfiguration
		e.Data = raft.EncodeConfiguration(raft.Configuration{Servers: []raft.Server{
			{ID: raft.ServerID(name), Address: "127.0.0.1:2", Suffrage: raft.Nonvoter},
		}})
		err := f.Log.StoreLog(e)
		if err != nil {
			t.Fatal(err)
		}
	}
	mustClose(t, f)
	unlock(t, dir)
	info, err := Inspect(parent, nil)
	if err != nil || info.ConfigIndex != 4 ||
		!slices.Equal(info.Servers, []Member{{ID: "b", Address: "127.0.0.1:2", Suffrage: "Nonvoter"}}) {
		t.Errorf("got %+v, %v", info, err)
	}
}

// A server does not start while its files are read, and they are not read while it runs.
func TestInspect_RejectsTheFilesOfARunningServer(t *testing.T) {
	t.Parallel()
	dir := stopped(t)
	enough := errors.New("enough")
	_, err := Inspect(dir, func(*raft.Log) error {
		_, err := LockDir(dir)
		if !structs.IsKind(err, structs.KindPrecondition) {
			t.Errorf("a server starts meanwhile: %v", err)
		}
		return enough
	})
	if !errors.Is(err, enough) {
		t.Errorf("got %v, want the error of the caller", err)
	}

	lock, err := LockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Close() }()
	_, err = Inspect(dir, nil)
	if !structs.IsKind(err, structs.KindPrecondition) || !strings.Contains(err.Error(), "a server uses "+dir) {
		t.Errorf("the files of a running server: %v", err)
	}
}

func TestInspect_RejectsADirectoryWithoutAServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, err := Inspect(dir, nil)
	if !structs.IsKind(err, structs.KindNotFound) || !strings.Contains(err.Error(), "data_dir") {
		t.Errorf("got %v", err)
	}
	if files := filesOf(t, dir); len(files) > 0 {
		t.Errorf("it has made %v", files)
	}
	_, err = Inspect(usedDir(t), nil)
	if !structs.IsKind(err, structs.KindPrecondition) {
		t.Errorf("files without a lock: %v", err)
	}
}

// An interrupted write is none of the log, as for a server that starts, and it stays.
func TestInspect_LeavesAnInterruptedWrite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := mustOpen(t, dir)
	appendEntries(t, f, 1, 10)
	keep := f.Log.mark.record
	path := f.Log.meta.segmentOf(10)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	err = f.Log.StoreLogs([]*raft.Log{entry(11), entry(12)})
	if err != nil {
		t.Fatal(err)
	}
	mustClose(t, f)
	err = os.WriteFile(filepath.Join(dir, markName), keep.encode(), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	editFile(t, path, func(b []byte) []byte {
		clear(b[scanSegment(before).end+300:])
		return b
	})
	unlock(t, dir)
	whole := readAll(t, dir)
	info, err := Inspect(dir, nil)
	if err != nil || info.Log.Last != 10 || readAll(t, dir) != whole {
		t.Errorf("got %+v, %v; the files changed: %t", info, err, readAll(t, dir) != whole)
	}
}

// A changed byte in a file of Raft is found, or changes nothing of what is told.
func TestInspect_RejectsAChangedByte(t *testing.T) {
	t.Parallel()
	dir := stopped(t)
	tell := func() (string, error) {
		var told strings.Builder
		info, err := Inspect(dir, func(e *raft.Log) error {
			_, err := fmt.Fprintf(&told, "%d %x\n", e.Index, e.Data)
			return err
		})
		return fmt.Sprintf("%+v %s", info, told.String()), err
	}
	want, err := tell()
	if err != nil {
		t.Fatal(err)
	}
	rnd := random(t)
	for _, name := range filesOf(t, dir) {
		if name == lockName || name == idName || strings.HasSuffix(name, snapshotSum) {
			continue
		}
		path := filepath.Join(dir, name)
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		rejected := 0
		for _, offset := range offsets(rnd, len(whole), max(1, len(whole)/10)) {
			damaged := bytes.Clone(whole)
			damaged[offset] ^= byte(1 + rnd.IntN(255))
			editFile(t, path, func([]byte) []byte { return damaged })
			got, err := tell()
			if err != nil {
				rejected++
			} else if got != want {
				t.Errorf("%s: a changed byte at %d is told as the truth", name, offset)
			}
		}
		if rejected == 0 && filepath.Base(name) != metaName { // its two slots have the same content
			t.Errorf("%s: no change was rejected", name)
		}
		editFile(t, path, func([]byte) []byte { return whole })
	}
}

// A tool that calls files whole with which no server starts would mislead.
func TestInspect_RejectsWhatAStartRejects(t *testing.T) {
	t.Parallel()
	dir := stopped(t)
	segments, err := filepath.Glob(filepath.Join(dir, "raft/wal/*.wal"))
	if err != nil || len(segments) < 3 {
		t.Fatalf("%v, %v", segments, err)
	}
	for name, left := range map[string]string{
		"raft":                                   "it is missing",
		"raft/wal":                               "it is missing",
		"raft/snapshots":                         "the snapshot of entry 50 is missing",
		"raft/wal/" + metaName:                   "it is missing",
		"raft/wal/" + filepath.Base(segments[1]): "reading a segment",
	} {
		to := copyDir(t, dir)
		err := os.RemoveAll(filepath.Join(to, name))
		if err != nil {
			t.Fatal(err)
		}
		_, told := Inspect(to, nil)
		_, start := openFiles(to)
		if told == nil || start == nil || told.Error() != start.Error() || !strings.Contains(told.Error(), left) {
			t.Errorf("without %s: the command says %v, the start %v", name, told, start)
		}
	}
}

// Nothing has the entries between the snapshot and the log.
func TestInspect_RejectsALogThatBeginsAfterTheSnapshot(t *testing.T) {
	t.Parallel()
	dir := stopped(t)
	editMark(t, dir, func(m *markRecord) { m.snapshot = 0 })
	err := os.RemoveAll(filepath.Join(dir, "raft/snapshots"))
	if err != nil {
		t.Fatal(err)
	}
	_, told := Inspect(dir, nil)
	_, start := openFiles(dir)
	if told == nil || start == nil || told.Error() != start.Error() {
		t.Errorf("the command says %v, the start %v", told, start)
	}
}

// editMark changes the mark of a server that has stopped.
func editMark(t *testing.T, dir string, change func(*markRecord)) {
	t.Helper()
	m, err := readMark(dir)
	if err != nil {
		t.Fatal(err)
	}
	change(&m)
	err = os.WriteFile(filepath.Join(dir, markName), m.encode(), 0o600)
	if err != nil {
		t.Fatal(err)
	}
}
