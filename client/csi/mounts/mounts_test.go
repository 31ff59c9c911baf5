package mounts

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"berth/structs"
	"berth/test/kit"
)

func root(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		kit.SkipLacking(t, "root: it mounts")
	}
	dir, err := os.MkdirTemp("/tmp", "b")
	kit.Must(t, err)
	dir, err = Resolve(dir)
	kit.Must(t, err)
	t.Cleanup(func() {
		table, _ := Read()
		for _, m := range append(table.Below(dir), dir) {
			for unix.Unmount(m, unix.MNT_DETACH) == nil {
			}
		}
		_ = os.RemoveAll(dir)
	})
	return dir
}

func tmpfs(t *testing.T, path string) {
	t.Helper()
	kit.Must(t, os.MkdirAll(path, 0o755))
	kit.Must(t, unix.Mount("none", path, "tmpfs", 0, "size=64k"))
}

// count is the number of mounts on top of each other at a path.
func (t *Table) count(path string) int {
	n := 0
	for _, m := range t.mounts {
		if m.Mountpoint == path {
			n++
		}
	}
	return n
}

func mounted(path string) (bool, error) {
	t, err := Read()
	return err == nil && t.Mounted(path), err
}

func TestTable_CountsStackedMounts(t *testing.T) {
	dir := root(t)
	odd := filepath.Join(dir, "with space\tand tab")
	tmpfs(t, odd)
	tmpfs(t, odd)
	tmpfs(t, filepath.Join(odd, "below"))
	table, err := Read()
	kit.Must(t, err)
	if n := table.count(odd); n != 2 {
		t.Errorf("%d mounts at %s, want 2", n, odd)
	}
	if got := table.Below(dir); len(got) != 3 {
		t.Errorf("below: %q", got)
	}
	if table.Mounted(dir) || len(table.Below(odd+"/be")) != 0 {
		t.Error("a path that only begins like a mount point is taken for one")
	}
}

func TestMakeShared_OnceAndRelease(t *testing.T) {
	dir := filepath.Join(root(t), "v")
	for range 3 {
		kit.Must(t, MakeShared(dir))
	}
	table, err := Read()
	kit.Must(t, err)
	if table.count(dir) != 1 || !table.shared(dir) {
		t.Fatalf("%d mounts, shared %v", table.count(dir), table.shared(dir))
	}
	below := filepath.Join(dir, "vol")
	tmpfs(t, below)
	if err := ReleaseShared(dir); !structs.IsKind(err, structs.KindPrecondition) {
		t.Errorf("released with a mount below: %v", err)
	}
	kit.Must(t, unix.Unmount(below, 0))
	for range 2 {
		kit.Must(t, ReleaseShared(dir))
	}
	if on, err := mounted(dir); err != nil || on {
		t.Errorf("still mounted: %v, %v", on, err)
	}
}

// sharedParent makes a directory below which each mount reaches its peers, as below the root of a machine
// with systemd.
func sharedParent(t *testing.T) string {
	t.Helper()
	parent := filepath.Join(root(t), "parent")
	tmpfs(t, parent)
	kit.Must(t, unix.Mount("", parent, "", unix.MS_SHARED, ""))
	return parent
}

func checkCount(t *testing.T, dir string, want int) {
	t.Helper()
	table, err := Read()
	kit.Must(t, err)
	if n := table.count(dir); n != want {
		t.Errorf("%d mounts at %s, want %d", n, dir, want)
	}
}

func TestMakeShared_MountsOnceForPluginsThatStartTogether(t *testing.T) {
	dir := filepath.Join(sharedParent(t), "v")
	var group sync.WaitGroup
	begin := make(chan struct{})
	errs := make([]error, 7)
	for i := range errs {
		group.Go(func() {
			<-begin
			errs[i] = MakeShared(dir)
		})
	}
	close(begin)
	group.Wait()
	kit.Must(t, errors.Join(errs...))
	checkCount(t, dir, 1)
}

// stack binds a directory on itself n times. Below a shared parent each of them doubles the mounts.
func stack(t *testing.T, dir string, n int) {
	t.Helper()
	kit.Must(t, os.MkdirAll(dir, 0o755))
	for range n {
		kit.Must(t, unix.Mount(dir, dir, "", unix.MS_BIND, ""))
	}
}

func TestMakeShared_TakesDownAStackThatNothingUses(t *testing.T) {
	parent := sharedParent(t)
	dir := filepath.Join(parent, "v")
	stack(t, dir, 3)
	checkCount(t, dir, 7)
	plugin := filepath.Join(parent, "plugin") // the copy of a plugin that goes on
	kit.Must(t, os.MkdirAll(plugin, 0o755))
	kit.Must(t, unix.Mount(dir, plugin, "", unix.MS_BIND, ""))

	f, err := os.Create(filepath.Join(dir, "open"))
	kit.Must(t, err)
	kit.Must(t, MakeShared(dir))
	checkCount(t, dir, 7) // a file is open on the topmost
	kit.Must(t, f.Close())

	below := filepath.Join(dir, "vol")
	tmpfs(t, below)
	kit.Must(t, MakeShared(dir))
	checkCount(t, dir, 7) // it would hide a volume, or be one to the plugin alone
	kit.Must(t, unix.Unmount(below, 0))

	kit.Must(t, MakeShared(dir))
	checkCount(t, dir, 1)
	tmpfs(t, filepath.Join(plugin, "vol"))
	if on, err := mounted(below); err != nil || !on {
		t.Errorf("a mount of a running plugin does not reach the host: %v, %v", on, err)
	}
}

// The copy that a plugin has of the topmost mount shows the host nothing if the one below is no peer.
func TestMakeShared_KeepsAStackWithoutPeers(t *testing.T) {
	dir := filepath.Join(root(t), "v")
	stack(t, dir, 2)
	kit.Must(t, MakeShared(dir))
	kit.Must(t, MakeShared(dir))
	checkCount(t, dir, 2)
}

func TestReleaseShared_WaitsForABusyMount(t *testing.T) {
	dir := filepath.Join(root(t), "v")
	kit.Must(t, MakeShared(dir))
	f, err := os.Create(filepath.Join(dir, "open"))
	kit.Must(t, err)
	if err := releaseShared(dir); !errors.Is(err, unix.EBUSY) {
		t.Errorf("released while a file is open: %v", err)
	}
	go func() { _ = f.Close() }()
	kit.Must(t, ReleaseShared(dir))
	kit.Must(t, os.Remove(filepath.Join(dir, "open")))
}

func TestMakeShared_HidesNothing(t *testing.T) {
	dir := filepath.Join(root(t), "v")
	tmpfs(t, filepath.Join(dir, "vol"))
	if err := MakeShared(dir); !structs.IsKind(err, structs.KindPrecondition) {
		t.Errorf("got %v", err)
	}
	if on, err := mounted(dir); err != nil || on {
		t.Errorf("mounted over: %v, %v", on, err)
	}
}

func TestDuty_A18_MountsInAPluginsNamespaceReachTheHost(t *testing.T) {
	dir := root(t)
	host, plugin := filepath.Join(dir, "v"), filepath.Join(dir, "plugin")
	kit.Must(t, MakeShared(host))
	kit.Must(t, os.MkdirAll(plugin, 0o755))
	kit.Must(t, unix.Mount(host, plugin, "", unix.MS_BIND, "")) // a peer, as the plugin's task has it
	tmpfs(t, filepath.Join(plugin, "vol"))
	if on, err := mounted(filepath.Join(host, "vol")); err != nil || !on {
		t.Errorf("the host sees it: %v, %v", on, err)
	}
}

func TestRemove_KeepsMountsAndData(t *testing.T) {
	dir := root(t)
	path := func(name string) string { return filepath.Join(dir, name) }
	tmpfs(t, path("mounted"))
	tmpfs(t, path("above/mounted"))
	kit.Must(t, os.MkdirAll(path("full/of"), 0o755))
	kit.Must(t, os.MkdirAll(path("empty"), 0o755))
	kit.Must(t, os.WriteFile(path("file"), nil, 0o600))
	for name, want := range map[string]structs.Kind{
		"mounted": structs.KindPrecondition, "above": structs.KindPrecondition, "full": structs.KindPrecondition,
		"empty": "", "file": "", "never/was": "",
	} {
		if err := Remove(path(name)); structs.KindOf(err) != want {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	for name, there := range map[string]bool{"mounted": true, "above/mounted": true, "full/of": true,
		"empty": false, "file": false} {
		if _, err := os.Stat(path(name)); (err == nil) != there {
			t.Errorf("%s: there is %v, want there %v", name, err, there)
		}
	}
}

func TestRemoveFiles_EmptiesADirectory(t *testing.T) {
	dir := root(t)
	good, bad := filepath.Join(dir, "good"), filepath.Join(dir, "bad")
	kit.Must(t, os.MkdirAll(good, 0o700))
	kit.Must(t, os.WriteFile(filepath.Join(good, "csi.sock"), nil, 0o600))
	tmpfs(t, filepath.Join(bad, "mounted"))
	for range 2 {
		kit.Must(t, RemoveFiles(good))
	}
	if err := RemoveFiles(bad); !structs.IsKind(err, structs.KindPrecondition) {
		t.Errorf("got %v", err)
	}
}

func TestResolve_FollowsLinks(t *testing.T) {
	dir := root(t)
	kit.Must(t, os.MkdirAll(filepath.Join(dir, "real"), 0o755))
	kit.Must(t, os.Symlink("real", filepath.Join(dir, "link")))
	got, err := Resolve(filepath.Join(dir, "link", "v"))
	if want := filepath.Join(dir, "real", "v"); err != nil || got != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}

func TestIsRoot_TellsMountsFromDirectories(t *testing.T) {
	dir := root(t)
	on := filepath.Join(dir, "on")
	tmpfs(t, on)
	bound := filepath.Join(dir, "bound")
	kit.Must(t, os.Mkdir(bound, 0o755))
	kit.Must(t, unix.Mount(bound, bound, "", unix.MS_BIND, ""))
	kit.Must(t, os.Symlink(on, filepath.Join(dir, "link")))
	for path, want := range map[string]bool{on: true, bound: true, dir: false, dir + "/link": false} {
		got, err := IsRoot(path)
		if err != nil || got != want {
			t.Errorf("%s: got %v (%v), want %v", path, got, err, want)
		}
	}
	if _, err := IsRoot(dir + "/none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a path that does not exist: %v", err)
	}
}

// TestRead_SeesMountsOfBefore: callers that share a read see all that they have mounted before.
func TestRead_SeesMountsOfBefore(t *testing.T) {
	dir := root(t)
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			path := filepath.Join(dir, strconv.Itoa(i))
			err := errors.Join(os.Mkdir(path, 0o755), unix.Mount("none", path, "tmpfs", 0, "size=64k"))
			if on, readErr := mounted(path); err != nil || readErr != nil || !on {
				t.Errorf("%s: mounted %v (%v, %v)", path, on, err, readErr)
			}
		})
	}
	all.Wait()
}
