// Package content works in the content of a mounted volume: it mounts single folders for tasks, and gives
// the files to an owner. A task, or another user of the volume, may change the folders of the volume at any
// time, so the package trusts no path in it:
//
//   - The kernel resolves the path of a folder below the root directory of the volume, and follows no
//     symbolic link. The mount is made of the folder that was opened then, not of a path.
//   - The driver of a task gets the mount point, which lies outside of every volume and of every task.
//   - A folder that the volume lacks is made the same way, and only a folder that was made gets an owner.
package content

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"berth/client/csi/mounts"
	"berth/internal/backoff"
	"berth/structs"
	"berth/structs/validate"
)

// mode is the mode of a folder that is made.
const mode = 0o755

// Folders are the folders of one volume of one allocation.
type Folders struct {
	Volume string // the path of its root directory on the host
	Dir    string // the directory of their mount points
	// ReadOnly says that no folder can be made.
	ReadOnly bool
	// Owner will own a folder that is made; nil is the agent's user.
	Owner *structs.VolumeOwnership
}

// Path returns the mount point of a folder for a task.
func (f Folders) Path(task, path string) string {
	return filepath.Join(f.Dir, mounts.ShortName(f.Volume, task, path))
}

// Mount mounts a folder for a task and returns the mount point. A mount of an earlier start of the task gives
// way to the new one. The folder is made if the volume lacks it and can be written; otherwise the error is a
// precondition. A path that leads through a symbolic link is denied.
func (f Folders) Mount(task, path string) (string, error) {
	err := validate.SubPath(path)
	if err != nil {
		return "", err
	}

	target := f.Path(task, path)
	err = f.mount(path, target, func() {})
	if err != nil {
		return "", fmt.Errorf("sub_path %q: %w", structs.Cut(path, structs.MaxQuoted), err)
	}
	return target, nil
}

// mount calls opened between the opening of the folder and its mount.
func (f Folders) mount(path, target string, opened func()) error {
	err := detach(target)
	if err == nil {
		err = os.MkdirAll(target, 0o700)
	}
	if err != nil {
		return err
	}

	fd, err := f.open(path)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }() // it was only a path

	opened()
	return bind(fd, target)
}

// detach takes the mounts of earlier starts from a mount point. A process that still has a file of the old
// mount keeps it.
func detach(target string) error {
	for {
		err := unix.Unmount(target, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		switch {
		case err == nil:
		// Nothing is there, or nothing is mounted there.
		case errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL):
			return nil
		default:
			return &os.PathError{Op: "unmount", Path: target, Err: err}
		}
	}
}

// open opens a folder, and makes it if the volume lacks it.
func (f Folders) open(path string) (int, error) {
	root, err := unix.Open(f.Volume, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: f.Volume, Err: err}
	}
	defer func() { _ = unix.Close(root) }() // it was only a path

	fd, err := below(root, path, unix.O_PATH)
	if errors.Is(err, unix.ENOENT) {
		err = f.makeAll(root, path)
		if err == nil {
			fd, err = below(root, path, unix.O_PATH)
		}
	}
	return fd, explain(err)
}

// explain gives the errors of a path their kind and their remedy.
func explain(err error) error {
	switch {
	case errors.Is(err, unix.ELOOP):
		return structs.Deniedf("%w: it leads through a symbolic link, which the node does not follow", err)
	case errors.Is(err, unix.ENOTDIR):
		return structs.Preconditionf("%w: a part of it is a file", err)
	case errors.Is(err, unix.EXDEV):
		return structs.Deniedf("%w: it leads out of the volume", err)
	case errors.Is(err, unix.EROFS):
		return structs.Preconditionf("%w: the volume lacks the folder, and its file system is read-only", err)
	}
	return err
}

// below opens a directory below another one.
func below(root int, path string, flags uint64) (int, error) {
	how := &unix.OpenHow{
		Flags:   flags | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	for {
		fd, err := unix.Openat2(root, path, how)
		// A rename beside it can end a resolution early.
		if err == nil || !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// makeAll makes the folders of a path that are missing.
func (f Folders) makeAll(root int, path string) error {
	if f.ReadOnly {
		return structs.Preconditionf("the volume has no such folder, and is mounted for reading only: " +
			"a job that writes to it has to make the folder first")
	}

	owner, err := f.owner()
	if err != nil {
		return err
	}

	at := root
	for name := range strings.SplitSeq(path, "/") {
		next, err := step(at, name, owner)
		if at != root {
			_ = unix.Close(at) // it was only a path
		}
		if err != nil {
			return err
		}
		at = next
	}
	return unix.Close(at)
}

// owner returns the owner of a folder that is made.
func (f Folders) owner() (Owner, error) {
	want := Owner{UID: KeepOwner, GID: KeepOwner, Mode: KeepOwner}
	var err error
	if f.Owner != nil && f.Owner.Policy != structs.OwnershipNever {
		want, err = OwnerOf(f.Owner)
	}
	if want.Mode == KeepOwner {
		want.Mode = mode
	}
	return want, err
}

// step opens a folder in another one, and makes it before if it is missing.
func step(dir int, name string, owner Owner) (int, error) {
	// It makes nothing in the place of a link, and follows none.
	err := unix.Mkdirat(dir, name, mode)
	made := err == nil
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return -1, err
	}

	fd, err := below(dir, name, unix.O_RDONLY)
	if err != nil || !made {
		return fd, err
	}

	err = give(fd, owner)
	if err != nil {
		_ = unix.Close(fd) // it was only read
		// The next try would take the folder as it is. One that is not empty has another user.
		_ = unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
		return -1, err
	}
	return fd, nil
}

// give gives a new folder its owner and its mode, which the umask of the agent may have cut. A folder in one
// with a setgid bit keeps the bit.
func give(fd int, owner Owner) error {
	err := unix.Fchown(fd, owner.UID, owner.GID)
	if err != nil {
		return structs.Preconditionf("giving the new folder its owner: %w", err)
	}

	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	if err != nil {
		return err
	}
	return unix.Fchmod(fd, uint32(owner.Mode)|st.Mode&unix.S_ISGID)
}

// bind mounts an open directory, with the mounts below it, on a directory of berth.
func bind(fd int, target string) error {
	const clone = unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_EMPTY_PATH | unix.AT_RECURSIVE
	tree, err := unix.OpenTree(fd, "", clone)
	if err != nil {
		return fmt.Errorf("taking the mount of the folder: %w", err)
	}
	defer func() { _ = unix.Close(tree) }() // the mount stays at its place

	err = unix.MoveMount(tree, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH)
	if err != nil {
		return fmt.Errorf("mounting the folder on %s: %w", target, err)
	}
	return nil
}

// ReleaseFolders unmounts all folders in a directory of mount points, and removes it. A mount that is busy is
// tried again for a moment.
func ReleaseFolders(dir string) error {
	_, err := os.Lstat(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}

	err = backoff.RetryEBUSY(context.Background(), func() error { return unmountBelow(dir) })
	if err != nil {
		return fmt.Errorf("unmounting the folders of a volume: %w", err)
	}
	return mounts.RemoveFiles(dir)
}

// unmountBelow unmounts all below a directory, the newest mount first.
func unmountBelow(dir string) error {
	for {
		table, err := mounts.Read()
		if err != nil {
			return err
		}

		below := table.Below(dir)
		if len(below) == 0 {
			return nil
		}

		last := below[len(below)-1]
		err = unix.Unmount(last, unix.UMOUNT_NOFOLLOW)
		if err != nil {
			return &os.PathError{Op: "unmount", Path: last, Err: err}
		}
	}
}
