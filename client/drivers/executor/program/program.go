// Package program has the program of the supervisors of tasks, berth-executor, if the build embeds it (`make
// build` does). Each task starts two processes of it. An agent without it starts its own executable, whose
// many packages take four times as long to start (ADR 41).
package program

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"berth/internal/durable"
)

// Install writes the program into a directory of its own and returns the command that runs it. It returns nil
// if this build has no program, or the file system of the directory runs none. It removes the programs of
// other builds: a process that runs one keeps it.
func Install(dir string) ([]string, error) {
	return install(dir, embedded)
}

func install(dir string, content []byte) ([]string, error) {
	if len(content) == 0 {
		return nil, nil
	}
	err := os.MkdirAll(dir, 0o700)
	if err != nil {
		return nil, err
	}
	var st unix.Statfs_t
	err = unix.Statfs(dir, &st)
	if err != nil {
		return nil, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	if st.Flags&unix.ST_NOEXEC != 0 {
		return nil, nil
	}
	sum := sha256.Sum256(content)
	path := filepath.Join(dir, "berth-executor-"+hex.EncodeToString(sum[:8]))
	there, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if !bytes.Equal(there, content) {
		err = write(path, content)
		if err != nil {
			return nil, err
		}
	}
	return []string{path}, removeOthers(dir, path)
}

// write makes the file at once, so that no process starts a part of it.
func write(path string, content []byte) error {
	part := path + ".part"
	err := durable.WriteFile(part, content)
	if err == nil {
		err = os.Chmod(part, 0o700)
	}
	if err == nil {
		err = durable.Rename(part, path)
	}
	return err
}

func removeOthers(dir, path string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		other := filepath.Join(dir, e.Name())
		if other != path {
			errs = append(errs, os.Remove(other))
		}
	}
	return errors.Join(errs...)
}
