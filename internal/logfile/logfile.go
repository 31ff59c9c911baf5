// Package logfile writes the output of a task to files of bounded number and size, and reads them.
//
// The layout is the whole contract between writer and reader. The files are in one directory and are named
// <task>.<kind>.<n>. The kind is stdout or stderr, and n counts up from 0. Only the file with the highest n
// grows. When it is full, the writer creates the next one and removes the oldest ones. Reader and writer may
// be in different processes.
//
// The task can write to the directory, and reader and writer have more rights than the task. Therefore they
// follow no symbolic link, which could lead to files of others, and do not wait for a pipe.
package logfile

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"berth/structs"
)

// The kinds of a task's output.
const (
	Stdout = "stdout"
	Stderr = "stderr"
)

// Name returns the file name of part n of a task's output.
func Name(task, kind string, n int) string {
	return fmt.Sprintf("%s.%s.%d", task, kind, n)
}

// output identifies one output of a task by its directory and the parts of its file names.
type output struct{ dir, task, kind string }

// parts lists the numbers of the existing files, oldest first. A directory that does not exist has none.
func (o output) parts() ([]int, error) {
	entries, err := os.ReadDir(o.dir)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	var ns []int
	for _, e := range entries {
		ext := filepath.Ext(e.Name())
		n, err := strconv.Atoi(strings.TrimPrefix(ext, "."))
		if err == nil && n >= 0 &&
			e.Name() == Name(o.task, o.kind, n) {
			ns = append(ns, n)
		}
	}
	slices.Sort(ns)
	return ns, nil
}

// withDir runs fn with the directory. It opens the directory each time, because the directory may have been
// replaced.
func (o output) withDir(fn func(fd int) error) error {
	fd, err := unix.Open(o.dir,
		unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{
			Op:   "open",
			Path: o.dir,
			Err:  err,
		}
	}
	defer unix.Close(fd)
	return fn(fd)
}

// openPart opens part n with the flags of open(2). It fails if the part is not a plain file.
func (o output) openPart(n, flags int) (f *os.File, err error) {
	name := Name(o.task, o.kind, n)
	path := filepath.Join(o.dir, name)
	err = o.withDir(func(at int) error {
		fd, err := unix.Openat(at, name,
			flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o644)
		if err != nil {
			return &os.PathError{
				Op:   "open",
				Path: path,
				Err:  err,
			}
		}
		f = os.NewFile(uintptr(fd), path)
		return nil
	})
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = structs.Preconditionf("%s is not a plain file", path)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// size returns the size of part n and reports whether the part exists.
func (o output) size(n int) (bytes int64, exists bool) {
	err := o.withDir(func(at int) error {
		var st unix.Stat_t
		err := unix.Fstatat(at, Name(o.task, o.kind, n),
			&st, unix.AT_SYMLINK_NOFOLLOW)
		bytes = st.Size
		return err
	})
	return bytes, err == nil
}

// remove removes part n. After a failure the next rotation tries again.
func (o output) remove(n int) {
	_ = o.withDir(func(at int) error {
		return unix.Unlinkat(at, Name(o.task, o.kind, n), 0)
	})
}
