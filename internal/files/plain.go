package files

import (
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"berth/structs"
)

// An open has effects on a device, and waits at a pipe. A task may make both, for example one of a watchdog,
// which resets the machine after it was opened. So a file is found first (O_PATH), and the found file is
// opened if it is plain.

// tries bounds the attempts to open a file that a task makes and removes meanwhile, and to follow a path with
// ".." while anything on the machine is renamed.
const tries = 64

// OpenPlain opens a plain file in a directory with the flags of open(2). With unix.O_CREAT it makes the file
// if it is not there. Anything else in its place, also a link, is a precondition.
func OpenPlain(dir *os.File, name string, flags int) (*os.File, error) {
	var err error
	for range tries {
		var f *os.File
		f, err = openPlain(dir, name, flags)
		raced := flags&unix.O_CREAT != 0 && errors.Is(err, unix.ENOENT)
		if !raced {
			return f, err
		}
	}
	return nil, err
}

func openPlain(dir *os.File, name string, flags int) (*os.File, error) {
	if flags&unix.O_CREAT != 0 {
		fd, err := unix.Openat(int(dir.Fd()), name, flags|unix.O_EXCL|unix.O_CLOEXEC, 0o644)
		if err == nil {
			return os.NewFile(uintptr(fd), name), nil
		}
		if !errors.Is(err, unix.EEXIST) {
			return nil, &os.PathError{Op: "open", Path: name, Err: err}
		}
	}
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	found := os.NewFile(uintptr(fd), name)
	defer func() { _ = found.Close() }()
	return openFound(found, flags)
}

// FindPlain opens a plain file at a path below a directory for reading. Links are followed inside of the
// directory: if the path leads out of it, the error is unix.EXDEV. Anything but a plain file is a
// precondition.
func FindPlain(dir *os.File, path string) (*os.File, error) {
	how := &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS,
	}
	err := error(unix.EAGAIN) // something was renamed meanwhile
	fd := -1
	for n := 0; n < tries && (errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR)); n++ {
		fd, err = unix.Openat2(int(dir.Fd()), path, how)
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	found := os.NewFile(uintptr(fd), path)
	defer func() { _ = found.Close() }()
	return openFound(found, unix.O_RDONLY)
}

// openFound opens a found file if it is plain.
func openFound(found *os.File, flags int) (*os.File, error) {
	info, err := found.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, structs.Preconditionf("%s is not a plain file", found.Name())
	}
	return Reopen(found, flags&^unix.O_CREAT)
}

// Reopen opens a found file (O_PATH) with the flags of open(2). No path is resolved again, and the open does
// not wait.
func Reopen(found *os.File, flags int) (*os.File, error) {
	path := ProcPath(found)
	// A lease of a task on the file would make the open wait.
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ENOENT) { // not "there is no file": it was found
		return nil, structs.Internalf("%s was found, but %s is missing: mount /proc", found.Name(), path)
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: found.Name(), Err: err}
	}
	return os.NewFile(uintptr(fd), found.Name()), nil
}

// ProcPath returns a path to a file itself, whatever has its name meanwhile.
func ProcPath(f *os.File) string {
	return "/proc/self/fd/" + strconv.Itoa(int(f.Fd()))
}
