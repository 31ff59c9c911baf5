package process

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Multiplexer is the device that makes the pseudo terminals of this machine.
const Multiplexer = "/dev/ptmx"

// OpenTerminal makes a pseudo terminal. multiplexer is the device file to open; the terminal belongs to the
// same devpts file system. The master can be read with deadlines. Its reads end with EIO once the terminal is
// closed everywhere. The caller closes both files.
func OpenTerminal(multiplexer string) (master, terminal *os.File, err error) {
	const flags = unix.O_RDWR | unix.O_NOCTTY | unix.O_CLOEXEC
	// In a sandbox a link like /proc/1/root could lead to a device of the host.
	fd, err := unix.Openat2(unix.AT_FDCWD, multiplexer, &unix.OpenHow{
		Flags:   flags | unix.O_NONBLOCK,
		Resolve: unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return nil, nil, &os.PathError{Op: "open", Path: multiplexer, Err: err}
	}

	peer, err := openPeer(fd, flags)
	if err != nil {
		_ = unix.Close(fd)
		return nil, nil, fmt.Errorf("making a terminal with %s: %w", multiplexer, err)
	}

	return os.NewFile(uintptr(fd), "ptmx"), os.NewFile(uintptr(peer), "pts"), nil
}

// openPeer opens the terminal of a master without its path, which a program could have replaced.
func openPeer(master int, flags uintptr) (int, error) {
	err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0)
	if err != nil {
		return 0, err
	}

	peer, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(master), unix.TIOCGPTPEER, flags)
	if errno != 0 {
		return 0, errno
	}

	return int(peer), nil
}

// ResizeTerminal sets the size of a terminal in characters. f is either end of it.
func ResizeTerminal(f *os.File, rows, columns uint16) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}

	var setErr error
	err = raw.Control(func(fd uintptr) {
		size := &unix.Winsize{Row: rows, Col: columns}
		setErr = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, size)
	})
	if err != nil {
		return err
	}

	return setErr
}
