package secrets

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"berth/structs"
)

// everyone may connect who may enter the directory: the user of the task.
const everyone = 0o666

// inDir returns a path below an open directory. It names the directory through its descriptor: the path of a
// socket has at most 107 bytes, and no link in the place of the directory leads elsewhere.
func inDir(dir *os.File, name string) string {
	return descriptor(int(dir.Fd())) + "/" + name
}

func descriptor(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

func openDir(dir string) (*os.File, error) {
	return os.OpenFile(dir, unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_RDONLY, 0)
}

// listenIn opens the socket in a directory, in the place of one of an earlier agent.
func listenIn(dir string) (net.Listener, error) {
	name := filepath.Base(structs.APISocketPath)
	at, err := openDir(dir)
	if err != nil {
		return nil, fmt.Errorf("the socket of the API: %w", err)
	}
	defer func() { _ = at.Close() }()

	err = unlink(at, name)
	if err != nil {
		return nil, err
	}

	ln, err := net.Listen("unix", inDir(at, name))
	if err != nil {
		return nil, fmt.Errorf("the socket of the API: %w", err)
	}

	// The path of the listener ends with this function.
	ln.(*net.UnixListener).SetUnlinkOnClose(false)
	err = openToAll(at, name)
	if err != nil {
		return nil, errors.Join(err, ln.Close())
	}

	return ln, nil
}

// openToAll sets the mode of the socket. A task that runs may have put a link into its place, so the file is
// found first, and changed only if it is a socket of the agent.
func openToAll(dir *os.File, name string) error {
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("the socket of the API: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()

	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	if err != nil {
		return fmt.Errorf("the socket of the API: %w", err)
	}

	if st.Mode&unix.S_IFMT != unix.S_IFSOCK || int(st.Uid) != os.Geteuid() || st.Nlink != 1 {
		return structs.Preconditionf("%s: the task has put another file into its place", structs.APISocketPath)
	}

	return unix.Chmod(descriptor(fd), everyone)
}

// removeIn removes the socket from a directory. One that a task has replaced goes with the allocation.
func removeIn(dir string) error {
	at, err := openDir(dir)
	if err != nil {
		return nil
	}
	defer func() { _ = at.Close() }()
	return unlink(at, filepath.Base(structs.APISocketPath))
}

// unlink removes a file. A directory in its place is left.
func unlink(dir *os.File, name string) error {
	err := unix.Unlinkat(int(dir.Fd()), name, 0)
	if err == nil || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EISDIR) {
		return nil
	}
	return fmt.Errorf("removing %s: %w", structs.APISocketPath, err)
}
