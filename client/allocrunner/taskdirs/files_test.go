package taskdirs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"berth/client/drivers/driver"
	"berth/client/drivers/drivertest"
	"berth/client/hooks"
	"berth/internal/files"
	"berth/structs"
	"berth/test/kit"
)

// fixture has the directories of the task web, and those of another task of its allocation.
type fixture struct{ *drivertest.Tree }

func newFixture(t *testing.T) *fixture {
	t.Helper()
	return &fixture{drivertest.NewTree(t)}
}

func (fx *fixture) dirs() *Files {
	return NewFiles(&hooks.TaskEnv{
		Config: &driver.TaskConfig{Dirs: fx.Dirs()},
		Seen:   driver.Inside,
	})
}

func TestReadFile_NeverLeavesTheDirectories(t *testing.T) {
	fx := newFixture(t)
	fx.MustWrite("other/secrets/token", "secret")
	fx.MustWrite("web/secrets/own", "own")
	fx.MustLink("../../other/secrets", "web/local/dir")
	fx.MustLink(fx.Path("other/secrets/token"), "web/local/absolute")
	fx.MustLink("/etc/passwd", "alloc/data/passwd")
	fx.MustLink("../../web/secrets/own", "alloc/data/own")
	fx.MustLink("../secrets/own", "web/local/own")
	d := fx.dirs()
	for _, path := range []string{
		"/etc/passwd", "../other/secrets/token", "local/../../other/secrets/token", "..", "../..",
		"local/dir/token", "local/absolute", "alloc/data/passwd", "alloc/data/own", "/alloc/../etc/passwd",
		fx.Path("other/secrets/token"), "alloc/../../other/secrets/token", "/locals/x",
	} {
		text, err := d.ReadFile(path, 100)
		if !structs.IsKind(err, structs.KindDenied) || text != "" {
			t.Errorf("%s: got %q, %v", path, text, err)
		}
	}
	for _, path := range []string{
		"secrets/own", "/secrets/own", "local/own", fx.Path("web/secrets/own"), "./local//own",
	} {
		text, err := d.ReadFile(path, 3)
		if err != nil || text != "own" {
			t.Errorf("%s: got %q, %v", path, text, err)
		}
	}
}

// An open has effects on a device.
func TestReadFile_OpensNoPipe(t *testing.T) {
	fx := newFixture(t)
	err := unix.Mkfifo(fx.Path("web/local/fifo"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	opened := kit.WatchOpens(t, fx.Path("web/local/fifo"))
	_, err = fx.dirs().ReadFile("local/fifo", 3)
	if !structs.IsKind(err, structs.KindPrecondition) {
		t.Errorf("got %v", err)
	}
	if opened() {
		t.Error("the pipe was opened")
	}
}

func TestReadFile_ReadsSmallRegularFilesOnly(t *testing.T) {
	fx := newFixture(t)
	fx.MustWrite("web/local/x", "four")
	err := unix.Mkfifo(fx.Path("web/local/fifo"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	d := fx.dirs()
	for path, want := range map[string]string{
		"local":      "is not a regular file",
		"local/fifo": "is not a regular file",
		"local/x":    "is too large",
	} {
		_, err := d.ReadFile(path, 3)
		if !structs.IsKind(err, structs.KindPrecondition) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", path, err)
		}
	}
	_, err = d.ReadFile("local/none", 3)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestWriteFile_SetsModeAndReplacesAsAWhole(t *testing.T) {
	fx := newFixture(t)
	d := fx.dirs()
	f := files.File{Text: "one", Mode: 0o640, UID: -1, GID: -1}
	for _, f.Text = range []string{"one", "two"} {
		err := d.WriteFile("/secrets/deep/er/x", f)
		if err != nil {
			t.Fatal(err)
		}
		fx.CheckFile("web/secrets/deep/er/x", f.Text)
	}
	info, err := os.Stat(fx.Path("web/secrets/deep/er/x"))
	if err != nil || info.Mode() != 0o640 {
		t.Errorf("got %v, %v", info.Mode(), err)
	}
	left, _ := filepath.Glob(fx.Path("web/secrets/deep/er/.*"))
	if len(left) > 0 {
		t.Errorf("left over: %q", left)
	}
	// A link that a task made in its place is replaced, not followed.
	fx.MustLink("y", "web/secrets/deep/er/x")
	fx.MustWrite("web/secrets/deep/er/y", "kept")
	err = d.WriteFile("/secrets/deep/er/x", f)
	if err != nil {
		t.Fatal(err)
	}
	fx.CheckFile("web/secrets/deep/er/x", "two")
	fx.CheckFile("web/secrets/deep/er/y", "kept")
}

func TestWriteFile_NeverLeavesTheDirectories(t *testing.T) {
	fx := newFixture(t)
	fx.MustLink("../../other/secrets", "web/local/dir")
	fx.MustLink(fx.Path("other"), "web/local/absolute")
	d := fx.dirs()
	for _, path := range []string{
		"/etc/berth-test", "../other/secrets/x", "local/dir/x", "local/dir/new/x", "local/absolute/x",
		"alloc/../../other/x",
	} {
		err := d.WriteFile(path, files.File{Text: "x", Mode: 0o644, UID: -1, GID: -1})
		if !structs.IsKind(err, structs.KindDenied) {
			t.Errorf("%s: got %v", path, err)
		}
	}
	found, err := os.ReadDir(fx.Path("other/secrets"))
	if err != nil || len(found) > 0 {
		t.Errorf("got %v, %v", found, err)
	}
}

// A task swaps a directory for a link to another task's, and back, while the agent reads and writes.
func TestDirs_StayInsideWhileTheTaskSwapsALink(t *testing.T) {
	fx := newFixture(t)
	fx.MustWrite("other/secrets/x", "secret")
	err := os.Mkdir(fx.Path("web/local/dir"), 0o755)
	if err != nil {
		t.Fatal(err)
	}
	fx.MustWrite("web/local/dir/x", "own")
	fx.MustLink("../../other/secrets", "web/local/link")
	var done atomic.Bool
	var swapping sync.WaitGroup
	swapping.Go(func() {
		for !done.Load() {
			err := unix.Renameat2(unix.AT_FDCWD, fx.Path("web/local/dir"),
				unix.AT_FDCWD, fx.Path("web/local/link"), unix.RENAME_EXCHANGE)
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
		text, err := d.ReadFile("local/dir/x", 100)
		if err == nil && text != "own" {
			t.Fatalf("read %q", text)
		}
		if err != nil {
			rejected++
		}
		_ = d.WriteFile("local/dir/x", files.File{Text: "own", Mode: 0o644, UID: -1, GID: -1})
	}
	stop()
	fx.CheckFile("other/secrets/x", "secret")
	found, err := os.ReadDir(fx.Path("other/secrets"))
	if err != nil || len(found) != 1 {
		t.Errorf("got %v, %v", found, err)
	}
	if rejected == 0 || rejected == tries {
		t.Errorf("%d of %d reads were rejected: the race did not happen", rejected, tries)
	}
}
