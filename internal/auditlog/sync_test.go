package auditlog

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"berth/test/kit"
)

// notOnDisk returns the number of pages of a file that the disk does not have yet.
func notOnDisk(t *testing.T, path string) uint64 {
	t.Helper()
	f, err := os.Open(path)
	kit.Must(t, err)
	defer func() { _ = f.Close() }()
	var pages unix.Cachestat_t
	err = unix.Cachestat(uint(f.Fd()), &unix.CachestatRange{}, &pages, 0)
	if err != nil {
		kit.SkipLacking(t, "a kernel that tells the pages of a file in its cache: Linux 6.5 or later")
	}
	return pages.Dirty + pages.Writeback
}

// A change begins once its line is on the disk, and not in the cache of the kernel alone.
func TestFile_HasItsLineOnTheDiskBeforeAChange(t *testing.T) {
	w := newWorld(t)
	l := w.open()
	plain := w.path("plain")
	kit.Must(t, os.WriteFile(plain, []byte("x"), 0o600))
	if notOnDisk(t, plain) == 0 {
		kit.SkipLacking(t, "a file system on a disk, with a cache in the kernel")
	}
	for range 3 {
		w.change(l, "x")
		if n := notOnDisk(t, w.path("audit.log")); n != 0 {
			t.Errorf("%d pages of the file are not on the disk", n)
		}
	}
}
