package content

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"berth/client/csi/mounts"
	"berth/structs"
	"berth/test/kit"
)

// fixture is a volume beside a directory of the host that no task may see.
type fixture struct {
	Folders
	t       *testing.T
	outside string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	if os.Geteuid() != 0 {
		kit.SkipLacking(t, "root: it mounts")
	}
	dir, err := mounts.Resolve(t.TempDir())
	kit.Must(t, err)
	f := &fixture{
		Folders: Folders{
			Volume: filepath.Join(dir, "volume", "mount"),
			Dir:    filepath.Join(dir, "volume", "folders"),
		},
		t:       t,
		outside: filepath.Join(dir, "outside"),
	}
	kit.Must(t, os.MkdirAll(f.Volume, 0o755))
	kit.Must(t, os.MkdirAll(f.outside, 0o755))
	kit.Must(t, os.WriteFile(filepath.Join(f.outside, "secret"), nil, 0o600))
	t.Cleanup(func() {
		kit.Must(t, ReleaseFolders(f.Dir))
		if f.Volume != "" {
			_ = unix.Unmount(f.Volume, unix.MNT_DETACH)
		}
	})
	return f
}

// make makes a folder of the volume with a file that marks it.
func (f *fixture) make(path string) {
	f.t.Helper()
	dir := filepath.Join(f.Volume, path)
	kit.Must(f.t, os.MkdirAll(dir, 0o755))
	kit.Must(f.t, os.WriteFile(filepath.Join(dir, "mark"), nil, 0o644))
}

// mustMount mounts a folder for the task web.
func (f *fixture) mustMount(path string) string {
	f.t.Helper()
	at, err := f.Mount("web", path)
	kit.Must(f.t, err)
	if is, err := mounts.IsRoot(at); err != nil || !is {
		f.t.Fatalf("nothing is mounted at %s (%v)", at, err)
	}
	return at
}

func has(dir, name string) bool {
	_, err := os.Lstat(filepath.Join(dir, name))
	return err == nil
}

func TestMount_ShowsOneFolderAndItsWrites(t *testing.T) {
	f := newFixture(t)
	f.make("data/pg")
	f.make("other")
	at := f.mustMount("data/pg")
	if !has(at, "mark") || has(at, "other") {
		t.Error("the mount does not show the folder")
	}
	kit.Must(t, os.WriteFile(filepath.Join(at, "written"), nil, 0o644))
	if !has(f.Volume, "data/pg/written") {
		t.Error("a write does not reach the volume")
	}
	if f.Path("web", "data/pg") != at || f.Path("other", "data/pg") == at {
		t.Error("each task has a mount point of its own, which Path tells")
	}
}

func TestMount_TakesTheFolderAnewAtEachStart(t *testing.T) {
	f := newFixture(t)
	f.make("data")
	f.mustMount("data")
	kit.Must(t, os.Rename(filepath.Join(f.Volume, "data"), filepath.Join(f.Volume, "old")))
	at := f.mustMount("data")
	if has(at, "mark") {
		t.Error("the mount shows the folder of the earlier start")
	}
	table, err := mounts.Read()
	kit.Must(t, err)
	if below := table.Below(f.Dir); len(below) != 1 {
		t.Errorf("mounted are %q", below)
	}
	kit.Must(t, ReleaseFolders(f.Dir))
	if has(f.Dir, "") || !has(f.Volume, "old/mark") {
		t.Error("Release leaves a mount point, or takes files of the volume")
	}
}

func TestMount_FollowsNoSymbolicLink(t *testing.T) {
	f := newFixture(t)
	f.make("data")
	link := func(target, at string) { kit.Must(t, os.Symlink(target, filepath.Join(f.Volume, at))) }
	link(f.outside, "absolute")
	link("../../outside", "relative")
	link("data", "inside")
	link("/proc/self/root", "magic")
	link("gone", "dangling")
	for _, path := range []string{
		"absolute", "absolute/new", "relative", "relative/new", "inside", "inside/new", "magic/tmp", "dangling",
		"dangling/new", "data/../data",
	} {
		_, err := f.Mount("web", path)
		if err == nil || !structs.IsKind(err, structs.KindDenied) && !structs.IsKind(err, structs.KindInvalid) ||
			!strings.Contains(err.Error(), "sub_path") {
			t.Errorf("%s: got %v", path, err)
		}
	}
	if has(f.outside, "new") || has(f.Volume, "data/new") || has(f.Volume, "gone") {
		t.Error("a folder was made through a symbolic link")
	}
}

// A task may change the folder between its opening and its mount: the mount is of the folder that was opened.
func TestMount_MountsTheFolderThatItOpened(t *testing.T) {
	f := newFixture(t)
	f.make("data")
	target := f.Path("web", "data")
	kit.Must(t, f.mount("data", target, func() {
		kit.Must(t, os.Rename(filepath.Join(f.Volume, "data"), filepath.Join(f.Volume, "old")))
		kit.Must(t, os.Symlink(f.outside, filepath.Join(f.Volume, "data")))
	}))
	if !has(target, "mark") || has(target, "secret") {
		t.Error("the mount shows what took the place of the folder")
	}
}

// A task changes a folder for a symbolic link, and back, while mounts of it are made.
func TestMount_CannotBeLedOutByASwap(t *testing.T) {
	f := newFixture(t)
	f.make("a/data")
	kit.Must(t, os.Mkdir(filepath.Join(f.Volume, "b"), 0o755))
	kit.Must(t, os.Symlink(f.outside, filepath.Join(f.Volume, "b", "data")))
	stop := make(chan struct{})
	var swaps sync.WaitGroup
	swaps.Go(func() {
		a, b := filepath.Join(f.Volume, "a"), filepath.Join(f.Volume, "b")
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
			}
		}
	})
	mounted, denied := 0, 0
	for range 300 {
		at, err := f.Mount("web", "a/data")
		switch {
		case err == nil && has(at, "mark") && !has(at, "secret"):
			mounted++
		case structs.IsKind(err, structs.KindDenied):
			denied++
		default:
			t.Errorf("%s has the secret %v: %v", at, has(at, "secret"), err)
		}
	}
	close(stop)
	swaps.Wait()
	t.Logf("%d mounts, %d denied", mounted, denied)
}

func TestMount_MakesAMissingFolderForItsOwner(t *testing.T) {
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	for name, c := range map[string]struct {
		owner *structs.VolumeOwnership
		want  [3]uint32
	}{
		"nobody in particular": {nil, [3]uint32{0, 0, 0o755}},
		"a user and a mode": {&structs.VolumeOwnership{Owner: "4711", Group: "4712", Mode: "0700"},
			[3]uint32{4711, 4712, 0o700}},
		"a group": {&structs.VolumeOwnership{Group: "4712"}, [3]uint32{0, 4712, 0o755}},
		"never": {&structs.VolumeOwnership{Owner: "4711", Policy: structs.OwnershipNever},
			[3]uint32{0, 0, 0o755}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.Owner = c.owner
			f.make("there")
			f.mustMount("there/data/pg")
			for path, want := range map[string][3]uint32{
				"there":         {0, 0, 0o700}, // by the umask of the test
				"there/data":    c.want,
				"there/data/pg": c.want,
			} {
				var st unix.Stat_t
				kit.Must(t, unix.Lstat(filepath.Join(f.Volume, path), &st))
				if got := [3]uint32{st.Uid, st.Gid, st.Mode & 0o7777}; got != want {
					t.Errorf("%s has %o, want %o", path, got, want)
				}
			}
		})
	}
}

func TestMount_KeepsTheGroupOfASetgidFolder(t *testing.T) {
	f := newFixture(t)
	kit.Must(t, os.Chown(f.Volume, 0, 4712))
	kit.Must(t, unix.Chmod(f.Volume, 0o2770))
	var st unix.Stat_t
	kit.Must(t, unix.Stat(f.mustMount("data"), &st))
	if st.Gid != 4712 || st.Mode&0o7777 != 0o2755 {
		t.Errorf("group %d, mode %o", st.Gid, st.Mode&0o7777)
	}
}

func TestMount_LeavesNoFolderOfAnUnknownOwner(t *testing.T) {
	f := newFixture(t)
	f.Owner = &structs.VolumeOwnership{Owner: "no-such-user"}
	_, err := f.Mount("web", "data")
	if !structs.IsKind(err, structs.KindInvalid) || has(f.Volume, "data") {
		t.Errorf("got %v, the folder is there: %v", err, has(f.Volume, "data"))
	}
}

func TestMount_MakesNothingInAReadOnlyVolume(t *testing.T) {
	f := newFixture(t)
	f.make("data")
	f.ReadOnly = true
	f.mustMount("data")
	_, err := f.Mount("web", "more")
	if !structs.IsKind(err, structs.KindPrecondition) || has(f.Volume, "more") ||
		!strings.Contains(err.Error(), "a job that writes to it has to make the folder first") {
		t.Errorf("got %v", err)
	}

	// The file system of a volume may be read-only without a word of the job.
	f.ReadOnly = false
	kit.Must(t, unix.Mount("none", f.Volume, "tmpfs", unix.MS_RDONLY, "size=64k"))
	_, err = f.Mount("web", "more")
	if !structs.IsKind(err, structs.KindPrecondition) || !errors.Is(err, unix.EROFS) {
		t.Errorf("got %v", err)
	}
}

func TestMount_NamesAFileInTheWay(t *testing.T) {
	f := newFixture(t)
	f.make("data")
	for _, path := range []string{"data/mark", "data/mark/more"} {
		_, err := f.Mount("web", path)
		if !structs.IsKind(err, structs.KindPrecondition) || !strings.Contains(err.Error(), "is a file") {
			t.Errorf("%s: got %v", path, err)
		}
	}
}

// The folder of a task shows the file systems that are mounted below it, and gives them back.
func TestRelease_UnmountsFoldersWithMountsInside(t *testing.T) {
	f := newFixture(t)
	f.make("data/inner")
	inner := filepath.Join(f.Volume, "data", "inner")
	kit.Must(t, unix.Mount("none", inner, "tmpfs", 0, "size=64k"))
	defer func() { _ = unix.Unmount(inner, unix.MNT_DETACH) }()
	at := f.mustMount("data")
	if has(at, "inner/mark") {
		t.Error("the mount hides a file system that is mounted in the folder")
	}
	kit.Must(t, ReleaseFolders(f.Dir))
	table, err := mounts.Read()
	kit.Must(t, err)
	if below := table.Below(f.Dir); len(below) > 0 || !table.Mounted(inner) {
		t.Errorf("mounted are still %q; the inner mount is there: %v", below, table.Mounted(inner))
	}
	kit.Must(t, ReleaseFolders(f.Dir))
}
