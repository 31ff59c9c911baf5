package kit

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// MountDisk mounts a file system of a size, such as 1m, and returns its folder. The end of the test unmounts
// it, also while something uses it.
func MountDisk(t testing.TB, size string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	MountDiskAt(t, dir, size)
	return dir
}

// MountDiskAt is MountDisk at a folder, which it makes.
func MountDiskAt(t testing.TB, dir, size string) {
	t.Helper()
	if os.Getuid() != 0 {
		SkipLacking(t, "root: mounts a file system")
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

// reservedSize is the size of the file system of MountReservedDisk.
const reservedSize = 16 << 20

// MountReservedDisk mounts a file system that keeps half of its blocks back for root, and returns its folder,
// which other users may enter. The end of the test unmounts it.
func MountReservedDisk(t testing.TB) (dir string) {
	t.Helper()
	if os.Getuid() != 0 {
		SkipLacking(t, "root: mounts a file system")
	}
	if _, err := exec.LookPath("mkfs.ext4"); err != nil {
		SkipLacking(t, "mkfs.ext4")
	}
	image := filepath.Join(t.TempDir(), "image")
	dir, err := os.MkdirTemp("/tmp", "reserved") // other users cannot enter that of the test
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(dir) })
	err = errors.Join(os.Chmod(dir, 0o755), os.WriteFile(image, nil, 0o600), os.Truncate(image, reservedSize))
	if err != nil {
		t.Fatal(err)
	}
	// The kernel frees the loop device with the mount.
	for _, line := range [][]string{
		{"mkfs.ext4", "-q", "-m", "50", image},
		{"mount", "-o", "loop", image, dir},
	} {
		out, err := exec.Command(line[0], line[1:]...).CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %v: %s", line, err, out)
		}
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

// nobody is a user without rights.
const nobody = 65534

// AsNobody calls a function on a thread whose user is not root.
func AsNobody(t testing.TB, do func()) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with this goroutine
		same := ^uintptr(0)
		_, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, same, nobody, same)
		if errno != 0 {
			done <- errno
			return
		}
		do()
		done <- nil
	}()
	err := <-done
	if err != nil {
		t.Fatal(err)
	}
}

// FillDisk leaves so many bytes free, rounded up to pages, and returns the function that frees the others
// again.
func FillDisk(t testing.TB, dir string, left uint64) (free func()) {
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
	if err != nil && !errors.Is(err, unix.ENOSPC) {
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

// Crowd writes records to a store on a full disk until it takes no other one, also not in the place of a
// former one. put writes one.
func Crowd(t testing.TB, put func(table, key, text string) error) {
	t.Helper()
	fits := func(table string, n, size int) bool {
		err := put(table, fmt.Sprintf("%05d", n), string(make([]byte, size)))
		if err != nil && !errors.Is(err, unix.ENOSPC) {
			t.Fatal(err)
		}
		return err == nil
	}
	n := 0
	for size := 8192; size > 0; size /= 2 {
		for ; fits("crowd", n, size) || fits(fmt.Sprint("crowd", n), n, size); n++ {
		}
	}
}
