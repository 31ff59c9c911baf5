package mounts

import (
	"errors"
	"fmt"
	"os"

	"github.com/moby/sys/mount"
	"golang.org/x/sys/unix"

	"berth/structs"
)

// Tmpfs is a file system in memory that keeps files of the agent's user alone until others are let in. No
// program runs from it, and no device works in it.
type Tmpfs struct {
	// Source tells the mounts of one use from others: ReleaseTmpfs removes no others.
	Source string
	SizeMB int // the most of its files; it takes only what they need
}

// inodesPerMB bounds the files in a Tmpfs. Each takes about 1 KiB of the kernel beside the size.
const inodesPerMB = 1024

// Mount mounts the file system on an empty directory. A symbolic link in the place of the directory is an
// error. Without the rights to mount, the error is denied.
func (t Tmpfs) Mount(dir string) error {
	// The descriptor keeps the directory: a link that takes its place now changes nothing.
	f, err := os.OpenFile(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return fmt.Errorf("mounting a file system in memory: %w", err)
	}
	defer func() { _ = f.Close() }()
	target := fmt.Sprintf("/proc/self/fd/%d", f.Fd())
	options := fmt.Sprintf("noexec,nosuid,nodev,mode=0700,size=%dm,nr_inodes=%d",
		t.SizeMB, t.SizeMB*inodesPerMB)

	// noswap keeps the files from the disk of the machine.
	err = mount.Mount(t.Source, target, "tmpfs", options+",noswap")
	if errors.Is(err, unix.EINVAL) { // before Linux 6.4
		err = mount.Mount(t.Source, target, "tmpfs", options)
	}
	if err != nil {
		return needRoot(fmt.Errorf("mounting a file system in memory on %s: %w", dir, err))
	}
	return nil
}

// ReleaseTmpfs unmounts the file systems of a source from a directory, and with them their files. A process
// that still has one of the files open does not hinder it. While anything else is mounted there or below, the
// error is a precondition. The path must have no symbolic links in it: see Resolve.
func ReleaseTmpfs(dir, source string) error {
	for {
		t, err := Read()
		if err != nil {
			return err
		}

		top := t.top(dir)
		if top == nil {
			return nil
		}

		if top.FSType != "tmpfs" || top.Source != source {
			return structs.Preconditionf("%s is not unmounted: %s from %q is mounted on it, which is not berth's",
				dir, top.FSType, top.Source)
		}

		if below := t.Below(dir); len(below) > 0 {
			return structs.Preconditionf("%s is not unmounted: mounted in it are still %q", dir, below)
		}

		err = unix.Unmount(dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if err != nil {
			return fmt.Errorf("unmounting %s: %w", dir, err)
		}
	}
}
