package opsocket

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"

	"golang.org/x/sys/unix"

	"berth/internal/backoff"
	"berth/structs"
)

// MaxPath is the most bytes of the path of a Unix socket: the kernel keeps 108 with the end.
const MaxPath = 107

const (
	// patience bounds the wait for a socket in use. An agent that was killed may leave a child between fork
	// and exec, which holds a copy of the socket until it runs exec.
	patience = 2 * time.Second
	interval = 20 * time.Millisecond
	// connectTimeout bounds the connect that shows whether an agent listens.
	connectTimeout = time.Second
)

// CheckPath returns an error if a socket cannot have the path. setting names the path in the error.
func CheckPath(setting, path string) error {
	switch {
	case !filepath.IsAbs(path):
		return structs.Invalidf("%s is %q; expected an absolute path", setting, path)
	case len(path) > MaxPath:
		return structs.Invalidf("%s: the path of the operator socket, %s, has %d bytes; expected at most %d: "+
			"set operator_socket to a shorter path", setting, path, len(path), MaxPath)
	case strings.ContainsFunc(path, unicode.IsControl):
		return structs.Invalidf("%s is %q; expected a path without control characters", setting, path)
	}
	return nil
}

// Serves reports whether an agent serves a socket that this process may open.
func Serves(path string) bool {
	conn, err := net.DialTimeout("unix", path, connectTimeout)
	if err != nil {
		return false
	}
	_ = conn.Close() // nothing was sent
	return true
}

// Served returns the first socket that an agent serves and this process may open, "" for none.
func Served(paths ...string) string {
	for _, path := range paths {
		if Serves(path) {
			return path
		}
	}
	return ""
}

// Listen listens on a socket that its user alone may open. It replaces a socket on which nobody listens, and
// no other file. Nobody else may be able to write to the directory. Close removes the socket.
func Listen(path string) (net.Listener, error) {
	return listen(path, patience)
}

func listen(path string, patience time.Duration) (net.Listener, error) {
	dir := filepath.Dir(path)
	err := checkDir(dir)
	if err != nil {
		return nil, err
	}

	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		ln, err := listenOnce(dir, path)
		if !errors.Is(err, errInUse) || !backoff.Sleep(ctx, interval) {
			return ln, err
		}
	}
}

// errInUse is the fault of a socket that another process has.
var errInUse = errors.New(
	"another agent uses it; give each agent its own data_dir, or its own operator_socket")

// listenOnce makes one attempt. The lock on the directory is held between the check of an old socket and its
// replacement: without it an agent could remove the socket that another one has just created.
func listenOnce(dir, path string) (net.Listener, error) {
	lock, err := os.Open(dir)
	if err != nil {
		return nil, structs.Internalf("the operator socket %s: %w", path, err)
	}
	defer func() { _ = lock.Close() }() // which ends the lock

	err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = errInUse
	}
	if err == nil {
		err = removeStale(path)
	}
	if err != nil {
		return nil, structs.Preconditionf("the operator socket %s: %w", path, err)
	}

	// The kernel creates the file with the mode of the socket, so the file never has another one.
	network := net.ListenConfig{Control: restrict}
	ln, err := network.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, structs.Internalf("listening on the operator socket: %w", err)
	}

	own := &listener{UnixListener: ln.(*net.UnixListener), path: path}
	own.SetUnlinkOnClose(false) // Close does it, for this file alone
	own.file, err = os.Lstat(path)
	if err == nil && own.file.Mode() != fs.ModeSocket|0o600 {
		err = structs.Internalf("the operator socket %s has the mode %s", path, own.file.Mode())
	}
	if err != nil {
		return nil, errors.Join(err, own.Close())
	}
	return own, nil
}

// restrict sets the mode of a socket that has no name yet.
func restrict(_, _ string, conn syscall.RawConn) error {
	var fault error
	err := conn.Control(func(fd uintptr) {
		fault = unix.Fchmod(int(fd), 0o600)
	})
	return errors.Join(err, fault)
}

// checkDir returns an error if others than root and the user of this process may replace files of a
// directory.
func checkDir(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return structs.Preconditionf("the directory of the operator socket: %w", err)
	}

	owner := info.Sys().(*syscall.Stat_t).Uid
	switch {
	case !info.IsDir():
		return structs.Preconditionf("the directory of the operator socket: %s is no directory", dir)
	case info.Mode().Perm()&0o022 != 0:
		return structs.Preconditionf("the directory %s of the operator socket has the mode %04o, so others may "+
			"replace the socket: chmod go-w %s", dir, info.Mode().Perm(), dir)
	case owner != 0 && int(owner) != os.Geteuid():
		return structs.Preconditionf("the directory %s of the operator socket belongs to the user %d, who may "+
			"replace the socket; expected root or the user of the agent", dir, owner)
	}
	return nil
}

// removeStale removes a socket on which nobody listens.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return structs.Preconditionf("a file that is no socket has this path (%s), and stays: move it away, "+
			"or set operator_socket", info.Mode())
	}

	conn, err := net.DialTimeout("unix", path, connectTimeout)
	switch {
	case err == nil:
		_ = conn.Close()
		return errInUse
	case errors.Is(err, syscall.ECONNREFUSED):
		return os.Remove(path)
	}
	return structs.Preconditionf("it exists, and whether an agent listens is not known: %w", err)
}

// listener is a listener that removes its own file.
type listener struct {
	*net.UnixListener
	path string
	file os.FileInfo // of the socket

	once   sync.Once
	closed error
}

// Close ends the listener and removes its socket, but no file that has taken the path meanwhile.
func (l *listener) Close() error {
	l.once.Do(func() {
		now, err := os.Lstat(l.path)
		if err == nil && l.file != nil && os.SameFile(now, l.file) {
			l.closed = os.Remove(l.path)
		}
		l.closed = errors.Join(l.closed, l.UnixListener.Close()) // last: the open socket keeps its inode
	})
	return l.closed
}
