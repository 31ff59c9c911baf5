package disk

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// inside has the rules by which the kernel resolves a path: it stays below the directory, on its file system,
// and follows no link.
const inside = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV

// openDir opens a directory, which is not resolved any further.
func openDir(path string) (*os.File, error) {
	return os.OpenFile(path, unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
}

// openBelow opens a file below a directory. With O_PATH and O_NOFOLLOW it may be a link.
func openBelow(dir *os.File, path string, flags int) (*os.File, error) {
	how := &unix.OpenHow{
		Flags:   uint64(flags | unix.O_CLOEXEC | unix.O_NOFOLLOW),
		Resolve: inside,
	}
	// openat2 rejects a mode without O_CREAT.
	if flags&unix.O_CREAT != 0 {
		how.Mode = 0o600
	}

	for {
		fd, err := unix.Openat2(int(dir.Fd()), path, how)
		// EAGAIN: a rename on the machine has disturbed the kernel's check of the path.
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, &os.PathError{Op: "openat2", Path: path, Err: err}
		}

		return os.NewFile(uintptr(fd), path), nil
	}
}

func closeDir(f *os.File) { _ = f.Close() }
