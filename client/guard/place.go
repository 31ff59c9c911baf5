package guard

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"berth/client/csi/mounts"
)

// runDir is where files are in memory on most machines.
const runDir = "/run"

// tmpfsSource is the source of this package's mounts in the mount table.
const tmpfsSource = "berth-lease"

// place returns the directory in memory of the agent with a data directory. It is one below runDir, or, on a
// machine whose runDir is on a disk, a file system of its own below the data directory, where mounted is set.
func place(dir string) (memory string, mounted bool) {
	inMemory, err := isTmpfs(runDir)
	if err != nil || !inMemory {
		return filepath.Join(dir, "lease"), true
	}
	return filepath.Join(runDir, "berth-"+mounts.ShortName(dir)), false
}

// makePlace makes the directory. An earlier agent may have made it.
func makePlace(dir string) (memory string, err error) {
	memory, mounted := place(dir)

	err = os.MkdirAll(memory, 0o700)
	if err != nil {
		return "", err
	}

	// An earlier agent may have mounted it.
	inMemory, err := isTmpfs(memory)
	if err == nil && mounted && !inMemory {
		err = mounts.Tmpfs{Source: tmpfsSource, SizeMB: 1}.Mount(memory)
	}
	if err != nil {
		return "", fmt.Errorf("making the place of the lease: %w", err)
	}
	return memory, nil
}

// releasePlace removes the directory with its files.
func releasePlace(dir string) error {
	memory, mounted := place(dir)
	var err error
	if mounted {
		err = mounts.ReleaseTmpfs(memory, tmpfsSource)
	}
	return errors.Join(err, mounts.RemoveFiles(memory))
}

func isTmpfs(dir string) (bool, error) {
	var st unix.Statfs_t
	err := unix.Statfs(dir, &st)
	if err != nil {
		return false, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return st.Type == unix.TMPFS_MAGIC, nil
}
