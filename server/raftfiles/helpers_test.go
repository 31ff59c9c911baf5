package raftfiles

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

const testSegment = 8 << 10

func openFiles(dir string) (*Files, error) {
	id, err := ServerID(dir)
	if err != nil {
		return nil, err
	}
	return Open(Options{
		DataDir:     dir,
		ID:          id,
		SegmentSize: testSegment,
		Logger:      hclog.NewNullLogger(),
		Fatal:       func(err error) { panic(err) },
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
		Index:      index,
		Term:       3,
		Type:       raft.LogCommand,
		Data:       bytes.Repeat([]byte{byte(index)}, 200),
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

// usedDir makes a data directory with several segments, cut at both ends, and with two snapshots.
func usedDir(t *testing.T) string {
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
		fmt.Fprintf(&out, "%d %d %d %x %x %d\n", e.Index, e.Term, e.Type, e.Data, e.Extensions,
			e.AppendedAt.UnixNano())
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
		if err == nil && !e.IsDir() && e.Name() != spareName { // it has no content
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

// copyDir returns a copy of a data directory.
func copyDir(t *testing.T, dir string) string {
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

func editFile(t *testing.T, path string, change func([]byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, change(b), 0o600); err != nil {
		t.Fatal(err)
	}
}
