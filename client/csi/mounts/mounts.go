// Package mounts reads the machine's mount table, names and makes the directories in which plugins see
// volumes, and makes the few mounts and removals that CSI volumes need on a node.
//
// Its rules:
//
//   - Only the mount table shows which paths are mounted. The package does not read a mounted file system,
//     because one whose server has failed never answers. IsRoot alone does, for the mounts of berth itself.
//   - Nothing is removed recursively, and nothing is removed that has a mount on it or below it: a directory
//     that is not empty stays, with any content.
//   - A directory is made shared once, by a bind mount on itself, so that the host and other tasks see the
//     mounts that a plugin makes below it in its own mount namespace.
package mounts

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/moby/sys/mount"
	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"berth/internal/backoff"
	"berth/internal/coalesce"
	"berth/structs"
)

// Table is the mount table at one moment.
type Table struct{ mounts []*mountinfo.Info }

// Read reads the mount table of this process's mount namespace. Callers that come while a read is under way
// share the next one: with many mounts a read takes the kernel long.
func Read() (*Table, error) {
	t := &Table{}
	_, err := reads.Do(context.Background(), struct{}{}, t)
	if err != nil {
		return nil, fmt.Errorf("reading the mount table: %w", err)
	}
	return t, nil
}

var reads = coalesce.Batcher[struct{}, *Table]{Propose: readFor}

func readFor(_ context.Context, _ struct{}, tables []*Table) (uint64, error) {
	infos, err := mountinfo.GetMounts(nil)
	for _, t := range tables {
		t.mounts = infos
	}
	return 0, err
}

// FileSystem reads the mount table, and returns the type of the file system at a mount point: see
// Table.FileSystem.
func FileSystem(path string) (string, error) {
	t, err := Read()
	if err != nil {
		return "", err
	}
	return t.FileSystem(path), nil
}

// IsRoot reports whether a mount has its root at a path. It asks the file system there, in place of the mount
// table: the caller knows that only berth mounts there, and no file system that may hang.
func IsRoot(path string) (bool, error) {
	var st unix.Statx_t
	const flags = unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT
	err := unix.Statx(unix.AT_FDCWD, path, flags, 0, &st)
	if err != nil {
		return false, &os.PathError{Op: "statx", Path: path, Err: err}
	}
	return st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, nil
}

// top returns the topmost mount at exactly this path, nil if there is none.
func (t *Table) top(path string) *mountinfo.Info {
	for _, m := range slices.Backward(t.mounts) {
		if m.Mountpoint == path {
			return m
		}
	}
	return nil
}

// Mounted reports whether something is mounted at exactly this path.
func (t *Table) Mounted(path string) bool {
	return t.top(path) != nil
}

// FileSystem returns the type of the file system that is mounted at exactly this path, as the kernel
// names it, "" for none.
func (t *Table) FileSystem(path string) string {
	m := t.top(path)
	if m == nil {
		return ""
	}
	return m.FSType
}

// Identity tells the file system that is mounted at exactly this path from others: its type and its device,
// "" for none.
func (t *Table) Identity(path string) string {
	m := t.top(path)
	if m == nil {
		return ""
	}
	return fmt.Sprintf("%s %d:%d", m.FSType, m.Major, m.Minor)
}

// IsWhole reports whether a file system is mounted at exactly this path from its root on: no directory, and
// no other part of it such as a subvolume.
func (t *Table) IsWhole(path string) bool {
	m := t.top(path)
	return m != nil && m.Root == "/"
}

// ReadOnly reports whether the file system that is mounted at a path is read-only as a whole, as after an
// error of its disk.
func (t *Table) ReadOnly(path string) bool {
	m := t.top(path)
	return m != nil &&
		slices.Contains(strings.Split(m.VFSOptions, ","), "ro")
}

// Below lists the mount points strictly below a directory, in the order in which they were mounted.
func (t *Table) Below(dir string) []string {
	prefix := strings.TrimSuffix(dir, "/") + "/"
	var out []string
	for _, m := range t.mounts {
		if strings.HasPrefix(m.Mountpoint, prefix) {
			out = append(out, m.Mountpoint)
		}
	}
	return out
}

// FoldersOf returns the directory in which single folders of a CSI volume are mounted for tasks. It lies
// beside the mount point of the volume.
func FoldersOf(volume string) string { return filepath.Join(filepath.Dir(volume), "folders") }

// shared reports whether the topmost mount at the path is shared.
func (t *Table) shared(path string) bool {
	m := t.top(path)
	return m != nil && peerGroup(m) != ""
}

// sharing is held while a directory is made a shared mount, or released: the mount table is read first, and
// two callers that both read it would both mount.
var sharing sync.Mutex

// MakeShared makes the directory, if it does not exist, and a shared mount of it: a bind mount on itself with
// shared propagation. A second call changes nothing, also not the mounts below. Callers take turns. Of
// several such mounts on each other it takes down the unused ones. The path must have no symbolic links in
// it: see Resolve.
func MakeShared(dir string) error {
	err := os.MkdirAll(dir, 0o755)
	if err != nil {
		return err
	}

	sharing.Lock()
	defer sharing.Unlock()
	t, err := unstack(dir)
	if err != nil {
		return err
	}

	if !t.Mounted(dir) {
		if below := t.Below(dir); len(below) > 0 {
			return structs.Preconditionf(
				"%s cannot be made a shared mount: it would hide the mounts below it: %s",
				dir, strings.Join(below, ", "))
		}

		err := mount.Mount(dir, dir, "none", "bind")
		if err != nil {
			return needRoot(fmt.Errorf("binding %s on itself: %w", dir, err))
		}
	} else if t.shared(dir) {
		return nil
	}

	err = mount.MakeRShared(dir)
	if err != nil {
		return needRoot(fmt.Errorf("making %s a shared mount: %w", dir, err))
	}

	return nil
}

// unstack takes down the mounts on each other at a directory, except for one, and returns the mount table
// then. Each of them shows each mount below the directory once more. A stack stays while files below are
// open or mounted.
func unstack(dir string) (*Table, error) {
	for {
		t, err := Read()
		if err != nil {
			return nil, err
		}

		if !t.stacked(dir) {
			return t, nil
		}

		err = unix.Unmount(dir, unix.UMOUNT_NOFOLLOW)
		if errors.Is(err, unix.EBUSY) {
			return t, nil
		}
		if err != nil {
			return nil, fmt.Errorf("unmounting one of several mounts at %s: %w", dir, err)
		}
	}
}

// stacked reports whether the two topmost mounts at a path are peers. The mounts that a task makes in its
// copy of the one reach the other as well, so that the task does not need the topmost.
func (t *Table) stacked(path string) bool {
	var peers []string
	for _, m := range slices.Backward(t.mounts) {
		if m.Mountpoint == path && len(peers) < 2 {
			peers = append(peers, peerGroup(m))
		}
	}
	return len(peers) == 2 && peers[0] == peers[1] && peers[0] != ""
}

// peerGroup returns the group of a shared mount, "" for one that is not shared.
func peerGroup(m *mountinfo.Info) string {
	for _, field := range strings.Fields(m.Optional) {
		if strings.HasPrefix(field, "shared:") {
			return field
		}
	}
	return ""
}

// ReleaseShared undoes MakeShared. While anything is mounted below, the error is a precondition. It retries a
// busy mount for a moment.
func ReleaseShared(dir string) error {
	sharing.Lock()
	defer sharing.Unlock()
	return backoff.RetryEBUSY(context.Background(), func() error {
		return releaseShared(dir)
	})
}

func releaseShared(dir string) error {
	// Several mounts may be stacked on the path.
	for {
		t, err := Read()
		if err != nil {
			return err
		}

		if !t.Mounted(dir) {
			return nil
		}

		if below := t.Below(dir); len(below) > 0 {
			return structs.Preconditionf("%s still has mounts below it: %s",
				dir, strings.Join(below, ", "))
		}

		err = unix.Unmount(dir, unix.UMOUNT_NOFOLLOW)
		if err != nil {
			return fmt.Errorf("unmounting %s: %w", dir, err)
		}
	}
}

// Remove removes files, and directories if they are empty, in their order up to the first error. A missing
// one is no error. If a directory is not empty, or something is mounted on a path or below it, the error is a
// precondition. It reads the mount table once.
func Remove(paths ...string) error {
	t, err := Read()
	if err != nil {
		return err
	}

	for _, path := range paths {
		err := t.remove(path)
		if err != nil {
			return err
		}
	}

	return nil
}

// remove is Remove for one path. The kernel itself does not remove what was mounted since t was read.
func (t *Table) remove(path string) error {
	if t.Mounted(path) || len(t.Below(path)) > 0 {
		return structs.Preconditionf("%s is not removed: it is mounted", path)
	}

	err := os.Remove(path)
	switch {
	case err == nil || errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, syscall.EBUSY):
		return structs.Preconditionf("%s is not removed: it is mounted", path)
	case errors.Is(err, syscall.ENOTEMPTY):
		return structs.Preconditionf("%s is not removed: it is not empty", path)
	}

	return err
}

// RemoveFiles removes a directory that berth made, and the files in it. It fails if the directory has
// subdirectories that are not empty. If something is mounted on it or below it, the error is a precondition.
func RemoveFiles(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}

	var paths []string
	for _, e := range entries {
		paths = append(paths, filepath.Join(dir, e.Name()))
	}

	return Remove(append(paths, dir)...)
}

// Resolve makes the directory and returns its path without symbolic links, as the mount table names it.
func Resolve(dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(abs)
}

func needRoot(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return structs.Deniedf("%w (mounting needs CAP_SYS_ADMIN: run the agent as root)", err)
	}
	return err
}
