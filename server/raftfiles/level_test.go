package raftfiles

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/internal/level"
	"berth/structs"
)

// rejectsUnchanged fails the test unless opening the directory returns an error with the words and changes
// nothing in it.
func rejectsUnchanged(t *testing.T, dir string, kind structs.Kind, words ...string) {
	t.Helper()
	before := readAll(t, dir)
	_, err := openFiles(dir)
	if err == nil || structs.KindOf(err) != kind {
		t.Fatalf("got %v (%s), want %s", err, structs.KindOf(err), kind)
	}
	for _, w := range append(words, filepath.Join(dir, markName), "docs/operations/") {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the error does not say %q: %v", w, err)
		}
	}
	if after := readAll(t, dir); after != before {
		t.Error("the files were changed")
	}
}

// readAll returns the content of all files below a directory.
func readAll(t *testing.T, dir string) string {
	t.Helper()
	var out strings.Builder
	for _, name := range filesOf(t, dir) {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "%s %x\n", name, b)
	}
	return out.String()
}

// A newer version may write another record behind the level.
func TestOpen_RejectsFilesOfANewerVersion(t *testing.T) {
	t.Parallel()
	dir := usedDir(t)
	newer := fmt.Sprintf("%s%03d of another form\n", markKind, level.Now+1)
	if err := os.WriteFile(filepath.Join(dir, markName), []byte(newer), 0o600); err != nil {
		t.Fatal(err)
	}
	rejectsUnchanged(t, dir, structs.KindPrecondition,
		fmt.Sprintf("they have level %d, and this version reads up to level %d", level.Now+1, level.Now),
		"Start that version again, or a later one")
}

// The files of versions before 0.1.0 have a record of another form, or none.
func TestOpen_RejectsFilesWithoutALevel(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(path string) error{
		"of another form": func(path string) error {
			return os.WriteFile(path, []byte("berth log-end 1 id=x last=7 snapshot=0 crc=00000000\n"), 0o600)
		},
		"none": os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			dir := usedDir(t)
			if err := change(filepath.Join(dir, markName)); err != nil {
				t.Fatal(err)
			}
			rejectsUnchanged(t, dir, structs.KindInternal, "the files of this server have no level",
				"remove "+dir+" and start it again")
		})
	}
}

// setLevel gives the files of a server a level as another version would write it.
func setLevel(t *testing.T, dir string, of int) {
	t.Helper()
	editFile(t, filepath.Join(dir, markName), func(b []byte) []byte {
		r, err := decodeMark(b)
		if err != nil {
			t.Fatal(err)
		}
		r.level = of
		return r.encode()
	})
}

// The first release reads no files of the versions before it.
func TestOpen_RejectsFilesFromBeforeTheFirstRelease(t *testing.T) {
	t.Parallel()
	dir := usedDir(t)
	setLevel(t, dir, level.First-1)
	rejectsUnchanged(t, dir, structs.KindPrecondition,
		"they have level 1, and this version reads from level 2", "start the server with an empty data_dir")
}

// The files of a lower level get that of this version, and keep their content.
func TestOpen_RaisesTheLevel(t *testing.T) {
	t.Parallel()
	if level.Now == level.First {
		t.Skip("no version reads files of a lower level than that of the first release")
	}
	dir := usedDir(t)
	want := mustContent(t, dir)
	path := filepath.Join(dir, markName)
	setLevel(t, dir, level.Now-1)
	if got := mustContent(t, dir); got != want {
		t.Error("the content differs")
	}
	b, err := os.ReadFile(path)
	if err != nil || !bytes.HasPrefix(b, fmt.Appendf(nil, "%s%03d ", markKind, level.Now)) {
		t.Errorf("the file is %s, %v", b, err)
	}
}

// A stop after the mark was made, and before the log was, leaves a directory that counts as new.
func TestOpen_ContinuesAfterAStopBehindTheMark(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	mustClose(t, mustOpen(t, dir))
	if err := os.RemoveAll(filepath.Join(dir, "raft")); err != nil {
		t.Fatal(err)
	}
	f := mustOpen(t, dir)
	appendEntries(t, f, 1, 3)
	mustClose(t, f)
	mustContent(t, dir)
}
