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

// output is one output of a task: a directory and what the names of the files in it begin with.
type output struct{ dir, task, kind string }

// parts lists the numbers of the files there are, oldest first. A directory that does not exist has none.
func (o output) parts() ([]int, error) {
	entries, err := os.ReadDir(o.dir)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	var ns []int
	prefix := o.task + "." + o.kind + "."
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
func (o output) in(fn func(fd int) error) error {
	fd, err := unix.Open(o.dir, unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: o.dir, Err: err}
	}
	defer unix.Close(fd)
	return fn(fd)
}

// open opens part n if it is a plain file, or makes it.
func (o output) open(n, flags int) (f *os.File, err error) {
	name := Name(o.task, o.kind, n)
	path := filepath.Join(o.dir, name)
	err = o.in(func(at int) error {
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
func (o output) size(n int) (bytes int64, there bool) {
	err := o.in(func(at int) error {
		var st unix.Stat_t
		err := unix.Fstatat(at, Name(o.task, o.kind, n), &st, unix.AT_SYMLINK_NOFOLLOW)
		bytes = st.Size
		return err
	})
	return bytes, err == nil
}

// remove removes part n. One that cannot be removed is tried again when the next one is full.
func (o output) remove(n int) {
	_ = o.in(func(at int) error { return unix.Unlinkat(at, Name(o.task, o.kind, n), 0) })
}
