package template

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/rootfile"
	"berth/internal/testskip"
	"berth/structs"
)

func (fx *fixture) dirs() *dirs { return newDirs(fx.taskEnv()) }

func (fx *fixture) mustLink(target, path string) {
	fx.t.Helper()
	_ = os.Remove(fx.path(path))
	err := os.Symlink(target, fx.path(path))
	if err != nil {
		fx.t.Fatal(err)
	}
}

func TestReadFile_NeverLeavesTheDirectories(t *testing.T) {
	fx := newFixture(t)
	fx.mustWrite("other/secrets/token", "secret")
	fx.mustWrite("web/secrets/own", "own")
	fx.mustLink("../../other/secrets", "web/local/dir")
	fx.mustLink(fx.path("other/secrets/token"), "web/local/absolute")
	fx.mustLink("/etc/passwd", "alloc/data/passwd")
	fx.mustLink("../../web/secrets/own", "alloc/data/own")
	fx.mustLink("../secrets/own", "web/local/own")
	d := fx.dirs()
	for _, path := range []string{
		"/etc/passwd", "../other/secrets/token", "local/../../other/secrets/token", "..", "../..",
		"local/dir/token", "local/absolute", "alloc/data/passwd", "alloc/data/own", "/alloc/../etc/passwd",
		fx.path("other/secrets/token"), "alloc/../../other/secrets/token", "/locals/x",
	} {
		text, err := d.readFile(path, 100)
		if !structs.IsKind(err, structs.KindDenied) || text != "" {
			t.Errorf("%s: got %q, %v", path, text, err)
		}
	}
	for _, path := range []string{
		"secrets/own", "/secrets/own", "local/own", fx.path("web/secrets/own"), "./local//own",
	} {
		text, err := d.readFile(path, 3)
		if err != nil || text != "own" {
			t.Errorf("%s: got %q, %v", path, text, err)
		}
	}
}

// An open has effects on a device.
func TestReadFile_OpensNoPipe(t *testing.T) {
	fx := newFixture(t)
	err := unix.Mkfifo(fx.path("web/local/fifo"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	opened := testskip.WatchOpens(t, fx.path("web/local/fifo"))
	_, err = fx.dirs().readFile("local/fifo", 3)
	if !structs.IsKind(err, structs.KindPrecondition) {
		t.Errorf("got %v", err)
	}
	if opened() {
		t.Error("the pipe was opened")
	}
}

func TestReadFile_ReadsSmallRegularFilesOnly(t *testing.T) {
	fx := newFixture(t)
	fx.mustWrite("web/local/x", "four")
	err := unix.Mkfifo(fx.path("web/local/fifo"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	d := fx.dirs()
	for path, want := range map[string]string{
		"local":      "is not a regular file",
		"local/fifo": "is not a regular file",
		"local/x":    "is too large",
	} {
		_, err := d.readFile(path, 3)
		if !structs.IsKind(err, structs.KindPrecondition) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", path, err)
		}
	}
	_, err = d.readFile("local/none", 3)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestWriteFile_SetsModeAndReplacesAsAWhole(t *testing.T) {
	fx := newFixture(t)
	d := fx.dirs()
	f := file{"/secrets/deep/er/x", rootfile.File{Text: "one", Mode: 0o640, UID: -1, GID: -1}}
	for _, f.Text = range []string{"one", "two"} {
		err := d.writeFile(f)
		if err != nil {
			t.Fatal(err)
		}
		fx.checkFile("web/secrets/deep/er/x", f.Text)
	}
	info, err := os.Stat(fx.path("web/secrets/deep/er/x"))
	if err != nil || info.Mode() != 0o640 {
		t.Errorf("got %v, %v", info.Mode(), err)
	}
	left, _ := filepath.Glob(fx.path("web/secrets/deep/er/.*"))
	if len(left) > 0 {
		t.Errorf("left over: %q", left)
	}
	// A link that a task made in its place is replaced, not followed.
	fx.mustLink("y", "web/secrets/deep/er/x")
	fx.mustWrite("web/secrets/deep/er/y", "kept")
	err = d.writeFile(f)
	if err != nil {
		t.Fatal(err)
	}
	fx.checkFile("web/secrets/deep/er/x", "two")
	fx.checkFile("web/secrets/deep/er/y", "kept")
}

// The file on the disk has the owner of the template, or the agent's without one.
func TestUp_GivesTheFileToItsOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		testskip.Lacking(t, "root: a file gets another owner")
	}
	agent := [2]uint32{uint32(os.Geteuid()), uint32(os.Getegid())}
	for name, c := range map[string]struct {
		uid, gid *int
		want     [2]uint32
	}{
		"both":    {new(1234), new(5678), [2]uint32{1234, 5678}},
		"user":    {new(1234), nil, [2]uint32{1234, agent[1]}},
		"group":   {nil, new(5678), [2]uint32{agent[0], 5678}},
		"root":    {new(0), new(0), [2]uint32{}},
		"neither": {nil, nil, agent},
		"agent":   {new(-1), new(-1), agent},
	} {
		t.Run(name, func(t *testing.T) {
			fx := newFixture(t, &structs.Template{
				EmbeddedTmpl: "x",
				DestPath:     "secrets/x",
				Perms:        "0440",
				Uid:          c.uid,
				Gid:          c.gid,
			})
			fx.mustUp()
			info, err := os.Stat(fx.path("web/secrets/x"))
			if err != nil {
				t.Fatal(err)
			}
			stat := info.Sys().(*syscall.Stat_t)
			got := [2]uint32{stat.Uid, stat.Gid}
			if got != c.want || info.Mode() != 0o440 {
				t.Errorf("got the owner %v and the mode %v, want %v", got, info.Mode(), c.want)
			}
		})
	}
}

func TestWriteFile_NeverLeavesTheDirectories(t *testing.T) {
	fx := newFixture(t)
	fx.mustLink("../../other/secrets", "web/local/dir")
	fx.mustLink(fx.path("other"), "web/local/absolute")
	d := fx.dirs()
	for _, path := range []string{
		"/etc/berth-test", "../other/secrets/x", "local/dir/x", "local/dir/new/x", "local/absolute/x",
		"alloc/../../other/x",
	} {
		err := d.writeFile(file{path, rootfile.File{Text: "x", Mode: 0o644, UID: -1, GID: -1}})
		if !structs.IsKind(err, structs.KindDenied) {
			t.Errorf("%s: got %v", path, err)
		}
	}
	found, err := os.ReadDir(fx.path("other/secrets"))
	if err != nil || len(found) > 0 {
		t.Errorf("got %v, %v", found, err)
	}
}

// A task swaps a directory for a link to another task's, and back, while the agent reads and writes.
func TestDirs_StayInsideWhileTheTaskSwapsALink(t *testing.T) {
	fx := newFixture(t)
	fx.mustWrite("other/secrets/x", "secret")
	err := os.Mkdir(fx.path("web/local/dir"), 0o755)
	if err != nil {
		t.Fatal(err)
	}
	fx.mustWrite("web/local/dir/x", "own")
	fx.mustLink("../../other/secrets", "web/local/link")
	var done atomic.Bool
	var swapping sync.WaitGroup
	swapping.Go(func() {
		for !done.Load() {
			err := unix.Renameat2(unix.AT_FDCWD, fx.path("web/local/dir"),
				unix.AT_FDCWD, fx.path("web/local/link"), unix.RENAME_EXCHANGE)
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	stop := func() {
		done.Store(true)
		swapping.Wait()
	}
	defer stop()
	d := fx.dirs()
	rejected := 0
	const tries = 10_000
	for range tries {
		text, err := d.readFile("local/dir/x", 100)
		if err == nil && text != "own" {
			t.Fatalf("read %q", text)
		}
		if err != nil {
			rejected++
		}
		_ = d.writeFile(file{"local/dir/x", rootfile.File{Text: "own", Mode: 0o644, UID: -1, GID: -1}})
	}
	stop()
	fx.checkFile("other/secrets/x", "secret")
	found, err := os.ReadDir(fx.path("other/secrets"))
	if err != nil || len(found) != 1 {
		t.Errorf("got %v, %v", found, err)
	}
	if rejected == 0 || rejected == tries {
		t.Errorf("%d of %d reads were rejected: the race did not happen", rejected, tries)
	}
}
