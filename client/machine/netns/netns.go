// Package netns makes network namespaces that outlive the processes of the agent: a file, on which the
// namespace is mounted, keeps it. `ip netns` shows the namespaces in Dir. The package is small because the
// supervisor of tasks needs it, which enters a namespace and has few packages.
package netns

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"berth/client/drivers/cgroups"
	"berth/structs"
)

// Dir is the directory of the files.
const Dir = "/var/run/netns"

// Path returns the file of a namespace.
func Path(name string) string { return filepath.Join(Dir, name) }

// Make makes a namespace whose loopback interface is up. The file must not exist. After an error or a crash
// Remove takes down a part of it.
func Make(path string) error {
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err != nil {
		return err
	}

	// The mount needs a file to be on.
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDONLY, 0o444)
	if err != nil {
		return fmt.Errorf("making a network namespace: %w", err)
	}

	_ = f.Close()
	// Unshare changes one thread. The mount keeps the namespace when that thread has ended.
	cgroups.OnOwnThread(func() {
		err = unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			err = raiseLoopback()
		}
		if err == nil {
			err = unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, "")
		}
	})
	if err != nil {
		return fmt.Errorf("making the network namespace %s: %w", path, err)
	}

	return nil
}

// raiseLoopback sets the loopback interface of the calling thread's namespace up.
func raiseLoopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)

	r, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, r)
}

// IsLive reports whether the file has a namespace.
func IsLive(path string) bool {
	var st unix.Statfs_t
	err := unix.Statfs(path, &st)
	// A file without its mount has another file system.
	return err == nil && st.Type == unix.NSFS_MAGIC
}

// Remove removes the file, and with it the namespace once no process is in it. It is idempotent. The removal
// of the file also takes down copies of the mount in other mount namespaces.
func Remove(path string) error {
	// Several mounts may be stacked on the file.
	for {
		err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if errors.Is(err, unix.ENOENT) {
			return nil
		}

		if errors.Is(err, unix.EINVAL) { // nothing is mounted
			break
		}
		if err != nil {
			return fmt.Errorf("removing the network namespace %s: %w", path, err)
		}
	}

	err := os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}

	return err
}

// Do calls fn on a thread that is in the namespace. The processes that fn starts are in it, too.
func Do(path string, fn func() error) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return structs.Preconditionf("entering the network namespace: %w", err)
	}
	defer f.Close()
	cgroups.OnOwnThread(func() {
		err = unix.Setns(int(f.Fd()), unix.CLONE_NEWNET)
		if err != nil {
			err = structs.Preconditionf("entering the network namespace %s: %w", path, err)
			return
		}
		err = fn()
	})
	return err
}
