package disk

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"

	"golang.org/x/sys/unix"

	"berth/structs"
)

// ownDir is the directory of this package in an allocation's. No task has a name with white space.
const ownDir = "moved data"

// The names in ownDir.
const (
	partName  = "part"  // data on its way from another node
	wholeName = "whole" // all of it, to be renamed
	doneName  = "done"  // a file: the allocation has taken over its data, or has given up
)

// dataDirs returns the directories that move, relative to the allocation's.
func dataDirs(g *structs.TaskGroup) []string {
	dirs := []string{"alloc/data"}
	for _, t := range g.Tasks {
		dirs = append(dirs, t.Name+"/local")
	}
	return dirs
}

// Sticky reports whether allocations of a group take over the data of their predecessors.
func Sticky(g *structs.TaskGroup) bool {
	return g != nil && g.EphemeralDisk != nil && g.EphemeralDisk.Sticky
}

// Waits returns the allocation whose data an allocation with a directory has still to take over, "" for none.
func Waits(a *structs.Allocation, dir string) (allocID string) {
	if a.PreviousAllocation == "" || a.Job == nil ||
		!Sticky(a.Job.Group(a.TaskGroup)) || exists(filepath.Join(dir, ownDir, doneName)) {
		return ""
	}
	return a.PreviousAllocation
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// finish marks an allocation whose data is in its place.
func finish(dir string) error {
	own := filepath.Join(dir, ownDir)
	err := makeOwnDir(own)
	if err != nil {
		return err
	}
	return errors.Join(
		os.RemoveAll(filepath.Join(own, partName)),
		os.RemoveAll(filepath.Join(own, wholeName)),
		os.WriteFile(filepath.Join(own, doneName), nil, 0o600))
}

func makeOwnDir(path string) error {
	err := os.Mkdir(path, 0o700)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	return err
}

// moveDirs renames directories of one allocation into the places of the empty ones of another. It leaves out
// directories that have moved already and directories that a task has replaced.
func moveDirs(from, to string, dirs []string) error {
	src, err := openDir(from)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer closeDir(src)

	dst, err := openDir(to)
	if err != nil {
		return err
	}
	defer closeDir(dst)

	for _, dir := range dirs {
		err := moveDir(src, dst, dir)
		if err != nil {
			return fmt.Errorf("taking over %s of %s: %w", dir, filepath.Base(from), err)
		}
	}

	return nil
}

// moveDir renames one directory. It opens each parent once, below its allocation, so that no link leads
// elsewhere.
func moveDir(src, dst *os.File, dir string) error {
	parent, name := path.Split(dir)
	from, err := openBelow(src, parent, unix.O_PATH|unix.O_DIRECTORY)
	if isGone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer closeDir(from)

	var st unix.Stat_t
	err = unix.Fstatat(int(from.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case isGone(err):
		return nil
	case err != nil:
		return err
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return nil
	}

	to, err := openBelow(dst, parent, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer closeDir(to)

	// This replaces an empty directory alone.
	err = unix.Renameat(int(from.Fd()), name, int(to.Fd()), name)
	if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) {
		return structs.Preconditionf("the new directory is not empty and is not replaced")
	}

	if isGone(err) {
		return nil // another move was faster
	}

	return err
}

// isGone reports whether there is no such file, or a task has put a link or a file in the place of a
// directory.
func isGone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR)
}
