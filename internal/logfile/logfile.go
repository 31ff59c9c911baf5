// Package logfile keeps the output of a task in files that stay within bounds, and reads it back.
//
// The layout is the whole contract between writer and reader: in one directory, <task>.<kind>.<n> with
// kind stdout or stderr and n counting up from 0. Only the file with the highest n grows; when it is full
// the next one is made and the oldest ones are removed. Reader and writer need not be in one process.
//
// The task can write to the directory. So neither it nor the files in it are taken for what they should be:
// a symbolic link would lead whoever writes or reads, with more rights than the task has, to files that are
// not the task's; a pipe would hold them up.
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

// Name is the file name of part n of a task's output.
func Name(task, kind string, n int) string { return fmt.Sprintf("%s.%s.%d", task, kind, n) }

// parts lists the numbers of the files there are, oldest first. A directory that does not exist has none.
func parts(dir, task, kind string) ([]int, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	var ns []int
	prefix := task + "." + kind + "."
	for _, e := range entries {
		tail, ok := strings.CutPrefix(e.Name(), prefix)
		if !ok {
			continue
		}
		if n, err := strconv.Atoi(tail); err == nil && n >= 0 && strconv.Itoa(n) == tail {
			ns = append(ns, n)
		}
	}
	slices.Sort(ns)
	return ns, nil
}

// in runs fn with the directory, which is opened anew each time: it may be made again.
func in(dir string, fn func(fd int) error) error {
	fd, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: dir, Err: err}
	}
	defer unix.Close(fd)
	return fn(fd)
}

// openFile opens part n of a task's output if it is a plain file, or makes it.
func openFile(dir, task, kind string, n, flags int) (f *os.File, err error) {
	name := Name(task, kind, n)
	path := filepath.Join(dir, name)
	err = in(dir, func(at int) error {
		fd, err := unix.Openat(at, name, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o644)
		if err != nil {
			return &os.PathError{Op: "open", Path: path, Err: err}
		}
		f = os.NewFile(uintptr(fd), path)
		return nil
	})
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = structs.Errorf(structs.KindPrecondition, "%s is not a plain file", path)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// size is that of part n, 0 if there is none.
func size(dir, task, kind string, n int) (bytes int64, there bool) {
	err := in(dir, func(at int) error {
		var st unix.Stat_t
		err := unix.Fstatat(at, Name(task, kind, n), &st, unix.AT_SYMLINK_NOFOLLOW)
		bytes = st.Size
		return err
	})
	return bytes, err == nil
}

// remove removes part n. One that cannot be removed is tried again when the next one is full.
func remove(dir, task, kind string, n int) {
	_ = in(dir, func(at int) error { return unix.Unlinkat(at, Name(task, kind, n), 0) })
}
