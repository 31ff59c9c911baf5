package kit

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// MakeDevice makes a device with a mode and a number (unix.Mkdev). It skips the test on a machine that does
// not allow that: only root makes devices, and in a user namespace nobody.
func MakeDevice(t testing.TB, path string, mode uint32, number uint64) {
	t.Helper()
	err := unix.Mknod(path, mode, int(number))
	if errors.Is(err, unix.EPERM) {
		SkipLacking(t, "the right to make devices")
	}
	if err != nil {
		t.Fatalf("making the device %s: %v", path, err)
	}
}

// WatchOpens returns a function that reports whether a file was opened since its last call. It skips the test
// on a kernel that reports a file which is only found (O_PATH) like an open: those before about Linux 6.5.
func WatchOpens(t testing.TB, path string) (opened func() bool) {
	t.Helper()
	probe := filepath.Join(t.TempDir(), "probe")
	err := os.WriteFile(probe, nil, 0o600)
	if err != nil {
		t.Fatal(err)
	}

	probed := watchOpens(t, probe)
	found, err := unix.Open(probe, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}

	_ = unix.Close(found)
	if probed() {
		SkipLacking(t, "a kernel whose inotify tells a file that is opened from one that is found (O_PATH): "+
			"about Linux 6.5 or later")
	}

	return watchOpens(t, path)
}

func watchOpens(t testing.TB, path string) (opened func() bool) {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = unix.Close(fd) })
	_, err = unix.InotifyAddWatch(fd, path, unix.IN_OPEN|unix.IN_DONT_FOLLOW)
	if err != nil {
		t.Fatal(err)
	}

	return func() bool {
		n, err := unix.Read(fd, make([]byte, 4096))
		return n > 0 && err == nil
	}
}
