package allocrunner

import (
	"os"
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
