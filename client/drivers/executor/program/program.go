// Package program has the program of the supervisors of tasks, berth-executor, if the build embeds it (`make
// build` does). Each task starts a process of it. An agent without it starts its own executable, whose
// many packages take four times as long to start (ADR 41).
package program

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"

	"berth/internal/durable"
)

// Install writes the program into a directory of its own and returns the command that runs it. It returns nil
// if this build has no program, or the file system of the directory runs none. It removes the programs of
// other builds: a process that runs one keeps it.
func Install(dir string) ([]string, error) {
	defer release(embedded)
	return install(dir, embedded)
}

// release gives the memory of the program back, which is a part of the agent's executable: the agent needs it
// no more. A later read reads the executable again.
func release(content []byte) {
	page := os.Getpagesize()
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(content)))) & (page - 1)
	whole := (len(content) - skip) &^ (page - 1)
	if whole > 0 {
		_ = unix.Madvise(content[skip:skip+whole], unix.MADV_DONTNEED) // it only saves memory
	}
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

	// The name tells the build, and the digest of the whole file that nothing has damaged it since.
	sum := sha256.Sum256(content)
	path := filepath.Join(dir, "berth-executor-"+hex.EncodeToString(sum[:8]))
	there, err := digestOf(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}

	if !bytes.Equal(there, sum[:]) {
		err = write(path, content)
		if err != nil {
			return nil, err
		}
	}

	return []string{path}, removeOthers(dir, path)
}

func digestOf(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	digest := sha256.New()
	_, err = io.Copy(digest, f)
	return digest.Sum(nil), err
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
