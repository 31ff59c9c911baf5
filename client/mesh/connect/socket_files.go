package connect

import (
	"errors"
	"fmt"
	"net"
	"path"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"berth/structs"
)

// everyone may connect: a task chooses its user.
const everyone = 0o666

// directory is an open directory. Its path names it through the descriptor: the path of a socket has at most
// 107 bytes, and no link in the place of the directory leads elsewhere.
type directory int

func (d directory) path(name string) string {
	return "/proc/self/fd/" + strconv.Itoa(int(d)) + "/" + name
}

func (d directory) close() { _ = unix.Close(int(d)) }

// openDirectory opens a directory below another one, not through a link.
func openDirectory(at int, name string) (directory, error) {
	fd, err := unix.Openat(at, name, unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, structs.Preconditionf("%s: %w", name, err)
	}
	return directory(fd), nil
}

// openShared opens the directory of a socket in the shared directory of an allocation. Tasks may write there.
func openShared(shared, name string) (directory, error) {
	outer, err := openDirectory(unix.AT_FDCWD, shared)
	if err != nil {
		return 0, err
	}

	defer outer.close()
	inner, err := openDirectory(int(outer), path.Dir(name))
	if err != nil {
		return 0, fmt.Errorf("in %s: %w", shared, err)
	}
	return inner, nil
}

// listenAt opens a socket in the shared directory of an allocation, in the place of one of an earlier agent.
// It makes the socket in a directory that tasks cannot change, and moves it then: neither the mode nor the
// move follows a link that a task has put there.
func listenAt(dir, shared, name string) (net.Listener, error) {
	base := filepath.Base(name)
	own, err := openDirectory(unix.AT_FDCWD, dir)
	if err != nil {
		return nil, err
	}
	defer own.close()

	there, err := openShared(shared, name)
	if err != nil {
		return nil, err
	}
	defer there.close()

	err = unlink(own, base) // of an agent that was killed
	if err != nil {
		return nil, err
	}

	ln, err := net.Listen("unix", own.path(base))
	if err != nil {
		return nil, err
	}

	// The socket leaves the path that the listener would remove.
	ln.(*net.UnixListener).SetUnlinkOnClose(false)
	err = unix.Fchmodat(int(own), base, everyone, 0)
	if err == nil {
		err = unix.Renameat(int(own), base, int(there), base)
	}
	if err != nil {
		err = fmt.Errorf("%s in %s: %w", name, shared, err)
		return nil, errors.Join(err, ln.Close(), unlink(own, base))
	}

	return ln, nil
}

// removeAt removes a socket from the shared directory of an allocation.
func removeAt(shared, name string) error {
	there, err := openShared(shared, name)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return nil // a task has replaced the directory, and with it the socket
	}
	defer there.close()
	return unlink(there, filepath.Base(name))
}

// unlink removes a file. A task may have made a directory in its place, which goes with the allocation.
func unlink(d directory, name string) error {
	err := unix.Unlinkat(int(d), name, 0)
	if err == nil || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EISDIR) {
		return nil
	}
	return fmt.Errorf("removing %s: %w", name, err)
}
