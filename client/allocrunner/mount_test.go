package allocrunner

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// bindInto mounts a directory over dir and takes it away at the end of the test.
func bindInto(t *testing.T, dir string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root to mount")
	}
	if err := unix.Mount(t.TempDir(), dir, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

// A task may replace what lies in the directories it writes to; what is made there again, as root, must not
// reach beyond them.
func TestALinkInPlaceOfADirectoryLeadsNowhere(t *testing.T) {
	root, host := t.TempDir(), t.TempDir()
	g := testAlloc("web").Job.TaskGroups[0]
	if err := makeDirs(root, g); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(host, 0o700); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(root, "alloc", "data")
	for _, in := range []func() error{
		func() error { return os.Symlink(host, data) },
		func() error { return os.Symlink(filepath.Join(host, "new"), data) },
		func() error { return os.WriteFile(data, nil, 0o600) },
	} {
		if err := errors.Join(os.RemoveAll(data), in()); err != nil {
			t.Fatal(err)
		}
		if err := makeDirs(root, g); err == nil {
			t.Error("nothing was noticed")
		}
	}
	info, err := os.Stat(host)
	if err != nil || info.Mode().Perm() != 0o700 || exists(filepath.Join(host, "new")) {
		t.Errorf("the host's directory is %v now", info.Mode())
	}
}
