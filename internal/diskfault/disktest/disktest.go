// Package disktest makes small disks for tests, and fills them to the last byte.
package disktest

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/diskfault"
	"berth/internal/testskip"
)

// Mount mounts a file system of a size, such as 1m, and returns its folder. The end of the test unmounts it,
// also while something uses it.
func Mount(t testing.TB, size string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	MountAt(t, dir, size)
	return dir
}

// MountAt is Mount at a folder, which it makes.
func MountAt(t testing.TB, dir, size string) {
	t.Helper()
	if os.Getuid() != 0 {
		testskip.Lacking(t, "root: mounts a file system")
	}
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = unix.Mount("none", dir, "tmpfs", 0, "size="+size)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
}

// Fill leaves so many bytes free, rounded up to pages, and returns the function that frees the others again.
func Fill(t testing.TB, dir string, left uint64) (free func()) {
	t.Helper()
	path := filepath.Join(dir, "filler")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	for page := make([]byte, os.Getpagesize()); err == nil; {
		var st unix.Statfs_t
		err = unix.Fstatfs(int(f.Fd()), &st)
		if err == nil && st.Bfree*uint64(st.Bsize) <= left {
			break
		}
		if err == nil {
			_, err = f.Write(page)
		}
	}
	_ = f.Close()
	if err != nil && !diskfault.NoSpace(err) {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		err := os.Remove(path)
		if err != nil {
			t.Error(err)
		}
	}
}
