package content

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/test/kit"
)

// nobody is a user and a group that own nothing here.
const nobody = 65534

// tree makes a volume with a folder, files and a link that leads out of it.
func tree(t *testing.T) (root, outside string) {
	t.Helper()
	if os.Geteuid() != 0 {
		kit.SkipLacking(t, "root: the test changes owners")
	}
	root = t.TempDir()
	outside = filepath.Join(t.TempDir(), "outside")
	kit.Must(t, os.WriteFile(outside, nil, 0o644))
	kit.Must(t, os.MkdirAll(filepath.Join(root, "a", "b"), 0o755))
	for _, name := range []string{"a/b/deep", "top"} {
		kit.Must(t, os.WriteFile(filepath.Join(root, name), nil, 0o640))
	}
	kit.Must(t, os.Symlink(outside, filepath.Join(root, "link")))
	return root, outside
}

// owner returns the owner and the mode of a file, not of the file to which it leads.
func owner(t *testing.T, path string) string {
	t.Helper()
	var st unix.Stat_t
	kit.Must(t, unix.Lstat(path, &st))
	return fmt.Sprintf("%d:%d %04o", st.Uid, st.Gid, st.Mode&0o7777)
}

func apply(t *testing.T, root string, w Owner) OwnerResult {
	t.Helper()
	r, err := ApplyOwner(t.Context(), root, w, nil)
	kit.Must(t, err)
	return r
}

func TestApply_GivesAllFilesToTheOwnerAndTheModeToTheRoot(t *testing.T) {
	root, outside := tree(t)
	r := apply(t, root, Owner{UID: nobody, GID: nobody, Mode: 0o770})
	if r.Seen != 6 || r.Changed != 6 || r.LeftOut != 0 {
		t.Errorf("%+v", r)
	}
	for name, want := range map[string]string{
		"": "65534:65534 0770", "a": "65534:65534 0755", "a/b": "65534:65534 0755",
		"a/b/deep": "65534:65534 0640", "top": "65534:65534 0640", "link": "65534:65534 0777",
	} {
		if got := owner(t, filepath.Join(root, name)); got != want {
			t.Errorf("%q has %s, want %s", name, got, want)
		}
	}
	if got := owner(t, outside); got != "0:0 0644" {
		t.Errorf("the file to which a link leads has %s", got)
	}
}

func TestApply_ChangesOnlyTheWanted(t *testing.T) {
	root, _ := tree(t)
	apply(t, root, Owner{UID: KeepOwner, GID: nobody, Mode: KeepOwner})
	if got := owner(t, filepath.Join(root, "top")); got != "0:65534 0640" {
		t.Errorf("the group alone: %s", got)
	}
	if got := owner(t, root); got != "0:65534 0755" {
		t.Errorf("the root directory: %s", got)
	}
	// A root directory stands for all also if only its group counts.
	if r := apply(t, root, Owner{UID: KeepOwner, GID: nobody, Mode: KeepOwner}); r != (OwnerResult{}) {
		t.Errorf("again: %+v", r)
	}
	apply(t, root, Owner{UID: nobody, GID: KeepOwner, Mode: KeepOwner})
	if got := owner(t, filepath.Join(root, "top")); got != "65534:65534 0640" {
		t.Errorf("then the user: %s", got)
	}
}

func TestApply_TakesTheRootForAllUnlessAlways(t *testing.T) {
	root, _ := tree(t)
	w := Owner{UID: nobody, GID: nobody, Mode: 0o750}
	apply(t, root, w)
	top := filepath.Join(root, "top")
	kit.Must(t, os.Lchown(top, 0, 0))
	if r := apply(t, root, w); r != (OwnerResult{}) || owner(t, top) != "0:0 0640" {
		t.Errorf("a root directory that fits: %+v", r)
	}
	w.Always = true
	if r := apply(t, root, w); r.Seen != 6 || r.Changed != 1 || owner(t, top) != "65534:65534 0640" {
		t.Errorf("always: %+v", r)
	}

	// Each of the user, the group and the mode of the root directory counts.
	w.Always = false
	for name, spoil := range map[string]func() error{
		"user":  func() error { return os.Lchown(root, 0, nobody) },
		"group": func() error { return os.Lchown(root, nobody, 0) },
		"mode":  func() error { return os.Chmod(root, 0o755) },
	} {
		kit.Must(t, spoil())
		if r := apply(t, root, w); r.Seen != 6 || owner(t, root) != "65534:65534 0750" {
			t.Errorf("another %s: %+v, then %s", name, r, owner(t, root))
		}
	}
}

// The root directory is the mark of a complete change, so it comes last.
func TestApply_IsRepeatedAfterAnInterruption(t *testing.T) {
	root, _ := tree(t)
	for i := range batch {
		kit.Must(t, os.WriteFile(filepath.Join(root, "a", fmt.Sprint(i)), nil, 0o600))
	}
	w := Owner{UID: nobody, GID: nobody, Mode: KeepOwner}
	ctx, interrupt := context.WithCancel(t.Context())
	first, err := ApplyOwner(ctx, root, w, func(OwnerResult) { interrupt() })
	if !errors.Is(err, context.Canceled) || first.Changed < batch/2 || owner(t, root) != "0:0 0755" {
		t.Fatalf("%+v, %v, root %s", first, err, owner(t, root))
	}
	second := apply(t, root, w)
	if second.Seen != batch+6 || first.Changed+second.Changed != batch+6 {
		t.Errorf("first %+v, then %+v", first, second)
	}
}

func TestApply_LeavesOutFilesThatReachBeyondTheVolume(t *testing.T) {
	bits := func(mode uint32) func(t *testing.T, path string) {
		return func(t *testing.T, path string) { kit.Must(t, unix.Chmod(path, mode)) }
	}
	const special = "it has a setuid or setgid bit"
	for name, c := range map[string]struct {
		spoil func(t *testing.T, path string)
		why   string
	}{
		"a second hard link": {func(t *testing.T, path string) {
			kit.Must(t, os.Link(path, filepath.Join(t.TempDir(), "other")))
		}, "it has several hard links"},
		"setuid": {bits(0o4755), special},
		"setgid": {bits(0o2755), special},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			path := filepath.Join(root, "file")
			kit.Must(t, os.WriteFile(path, nil, 0o644))
			c.spoil(t, path)
			before := owner(t, path)
			r, err := ApplyOwner(t.Context(), root, Owner{UID: nobody, GID: nobody, Mode: KeepOwner}, nil)
			kit.Must(t, err)
			if got := owner(t, path); got != before {
				t.Errorf("changed to %s", got)
			}
			if r.LeftOut != 1 || r.Warning() != "file keeps its owner: "+c.why {
				t.Errorf("%+v: %s", r, r.Warning())
			}
			if got := owner(t, root); !strings.HasPrefix(got, "65534:65534") {
				t.Errorf("the root directory has %s", got)
			}
		})
	}
}

// New files of such a folder get its group, and the change of its owner leaves that so.
func TestApply_ChangesFoldersWithSetgid(t *testing.T) {
	root, _ := tree(t)
	folder := filepath.Join(root, "a")
	kit.Must(t, unix.Chmod(folder, 0o2775))
	r := apply(t, root, Owner{UID: nobody, GID: nobody, Mode: KeepOwner})
	if got := owner(t, folder); got != "65534:65534 2775" || r.LeftOut != 0 {
		t.Errorf("%s, %+v", got, r)
	}
}

func TestApply_EntersNoOtherMount(t *testing.T) {
	root, _ := tree(t)
	other := filepath.Join(root, "a", "b")
	kit.Must(t, unix.Mount("none", other, "tmpfs", 0, "size=64k"))
	defer func() { kit.Must(t, unix.Unmount(other, unix.MNT_DETACH)) }()
	inside := filepath.Join(other, "inside")
	kit.Must(t, os.WriteFile(inside, nil, 0o600))
	// A bind mount has the device of the volume.
	bound := filepath.Join(root, "bound")
	kit.Must(t, os.Mkdir(bound, 0o755))
	kit.Must(t, unix.Mount(t.TempDir(), bound, "", unix.MS_BIND, ""))
	defer func() { kit.Must(t, unix.Unmount(bound, unix.MNT_DETACH)) }()

	r := apply(t, root, Owner{UID: nobody, GID: nobody, Mode: KeepOwner})
	if r.LeftOut != 2 || owner(t, inside) != "0:0 0600" || owner(t, bound) == "65534:65534 0755" {
		t.Errorf("%+v", r)
	}
	if got := r.Warning(); !strings.HasPrefix(got, "2 files keep their owners, among them ") ||
		!strings.HasSuffix(got, ": 2 at which another file system is mounted") {
		t.Error(got)
	}
}

func TestApply_CountsTheFilesThatItLeavesOut(t *testing.T) {
	root, _ := tree(t)
	for _, name := range []string{"one", "two"} {
		kit.Must(t, os.Link(filepath.Join(root, "a", "b", "deep"), filepath.Join(root, name)))
	}
	kit.Must(t, unix.Chmod(filepath.Join(root, "top"), 0o4755))
	r := apply(t, root, Owner{UID: nobody, GID: nobody, Mode: KeepOwner})
	if r.LeftOut != 4 || r.Linked != 3 || r.Special != 1 || r.Mounts != 0 {
		t.Errorf("%+v", r)
	}
	want := "4 files keep their owners, among them " + r.Example +
		": 3 with several hard links, 1 with a setuid or setgid bit"
	if r.Warning() != want || !slices.Contains([]string{"one", "two", "a/b/deep", "top"}, r.Example) {
		t.Error(r.Warning())
	}
}

// A task chooses the names of its files, and an operator reads them on a terminal.
func TestApply_ShowsABoundedPrintableExample(t *testing.T) {
	root := t.TempDir()
	long := filepath.Join(root, "\x1b[2J"+strings.Repeat("x", 240))
	kit.Must(t, os.WriteFile(long, nil, 0o644))
	kit.Must(t, unix.Chmod(long, 0o4755))
	got := apply(t, root, Owner{UID: nobody, GID: nobody, Mode: KeepOwner}).Example
	if strings.Contains(got, "\x1b") || len(got) > maxExample+20 || !strings.HasSuffix(got, "…") {
		t.Errorf("%q", got)
	}
}

func TestApply_NamesThePathOfAnError(t *testing.T) {
	gone := filepath.Join(t.TempDir(), "gone")
	_, err := ApplyOwner(t.Context(), gone, Owner{UID: KeepOwner, GID: KeepOwner, Mode: KeepOwner}, nil)
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), gone) {
		t.Errorf("got %v", err)
	}
}

func TestApply_BoundsTheDepth(t *testing.T) {
	root, _ := tree(t)
	deep := root
	for range maxDepth + 1 {
		deep += "/d"
		kit.Must(t, os.Mkdir(deep, 0o755))
	}
	_, err := ApplyOwner(t.Context(), root, Owner{UID: nobody, GID: nobody, Mode: KeepOwner}, nil)
	if err == nil || !strings.Contains(err.Error(), "folders inside each other") {
		t.Errorf("got %v", err)
	}
}
