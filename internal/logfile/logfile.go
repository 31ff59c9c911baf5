// Package logfile writes the output of a task to files of bounded number and size, and reads them.
//
// The layout is the whole contract between writer and reader. The files are in one directory and are named
// <task>.<kind>.<n>. The kind is stdout or stderr, and n counts up from 0. Only the file with the highest n
// grows. When it is full, the writer creates the next one and removes the oldest ones. Reader and writer may
// be in different processes.
//
// The task can write to the directory, and reader and writer have more rights than the task. Therefore they
// follow no symbolic link, which could lead to files of others, and open no pipe and no device. A writer
// notices that the task has moved or removed its file or the directory, and continues with the next n, in a
// new directory if it must.
package logfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"berth/internal/files"
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
	dir, err := o.openDir()
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer closeRead(dir)

	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}

	var ns []int
	for _, name := range names {
		ext := filepath.Ext(name)
		n, err := strconv.Atoi(strings.TrimPrefix(ext, "."))
		if err == nil && n >= 0 &&
			// This rejects other forms of the number, such as 01.
			name == Name(o.task, o.kind, n) {
			ns = append(ns, n)
		}
	}

	slices.Sort(ns)
	return ns, nil
}

// errReplaced is the error for a directory in whose place the task has put something else.
var errReplaced = structs.NotFoundf("the directory of the logs is gone: " +
	"the task put something else in its place. Its next output makes the directory again")

// O_NOFOLLOW is about the last element alone. The directories above it are the agent's.
const dirFlags = unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_RDONLY | unix.O_CLOEXEC

// openDir opens the directory. Every access opens it again, because the task may have replaced it. The error
// has no path of the host, because the task's users read it.
func (o output) openDir() (*os.File, error) {
	fd, err := unix.Open(o.dir, dirFlags, 0)
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) {
		return nil, errReplaced
	}
	if err != nil {
		return nil, &os.PathError{
			Op:   "open",
			Path: filepath.Base(o.dir),
			Err:  err,
		}
	}
	return os.NewFile(uintptr(fd), filepath.Base(o.dir)), nil
}

// MakeDir makes the directory of logs, also in the place of something else that a task put there. The
// directory above it exists, and does not belong to the task.
func MakeDir(dir string) error {
	f, err := OpenDir(dir)
	if err != nil {
		return err
	}
	return f.Close()
}

// OpenDir opens the directory of logs after MakeDir. The task may put something else in its place later: that
// has no effect on the open directory.
func OpenDir(dir string) (*os.File, error) { return output{dir: dir}.openOrMakeDir() }

// openOrMakeDir makes the directory if the task has moved or removed it, or has put something else in its
// place. The directory above it does not belong to the task.
func (o output) openOrMakeDir() (*os.File, error) {
	dir, err := o.openDir()
	if !isGone(err) {
		return dir, err
	}

	above := output{dir: filepath.Dir(o.dir)}
	parent, err := above.openDir()
	if err != nil {
		return nil, err
	}
	defer closeRead(parent)

	name := filepath.Base(o.dir)
	// This removes no directory, and of a link only the link. The task may use the name again at once.
	_ = unix.Unlinkat(int(parent.Fd()), name, 0)
	made := unix.Mkdirat(int(parent.Fd()), name, 0o755)
	dir, err = o.openDir()
	if err == nil && made == nil {
		_ = dir.Chmod(0o755) // whatever the umask
	}

	return dir, err
}

// isGone reports whether the error says that the directory, or a file in it, is not there.
func isGone(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, errReplaced)
}

// openPart opens part n with the flags of open(2). It fails if the part is not a plain file. With O_CREAT it
// makes the directory, too.
func (o output) openPart(n, flags int) (*os.File, error) {
	// A reader makes no directory: an output without files is empty.
	open := o.openDir
	if flags&unix.O_CREAT != 0 {
		open = o.openOrMakeDir
	}
	dir, err := open()
	if err != nil {
		return nil, err
	}
	defer closeRead(dir)
	return files.OpenPlain(dir, Name(o.task, o.kind, n), flags)
}

// stat describes part n.
func (o output) stat(n int) (st unix.Stat_t, err error) {
	dir, err := o.openDir()
	if err != nil {
		return st, err
	}
	defer closeRead(dir)
	err = unix.Fstatat(int(dir.Fd()), Name(o.task, o.kind, n),
		&st, unix.AT_SYMLINK_NOFOLLOW)
	return st, err
}

// exists reports whether part n exists.
func (o output) exists(n int) bool {
	_, err := o.stat(n)
	return err == nil
}

// remove removes part n. After a failure the next rotation tries again.
func (o output) remove(n int) {
	dir, err := o.openDir()
	if err != nil {
		return
	}
	defer closeRead(dir)
	_ = unix.Unlinkat(int(dir.Fd()), Name(o.task, o.kind, n), 0)
}

func closeRead(f *os.File) { _ = f.Close() }
