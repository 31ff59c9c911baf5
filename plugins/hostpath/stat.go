package hostpath

import (
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// bootID identifies the boot of the machine. The mounts of an earlier boot do not exist.
var bootID = sync.OnceValue(func() string {
	b, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b))
})

// freeSpace returns the size of a directory's file system, and the bytes left on it for users other than
// root.
func freeSpace(dir string) (total, free int64, err error) {
	var st unix.Statfs_t
	err = unix.Statfs(dir, &st)
	if err != nil {
		return 0, 0, err
	}
	total = int64(st.Blocks) * st.Bsize
	free = int64(st.Bavail) * st.Bsize
	return total, free, nil
}

// syncFS writes all changes of a file system to its disk.
func syncFS(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}
