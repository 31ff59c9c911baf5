package executor

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"berth/client/drivers/sandbox"
)

// GiveTo makes the user the owner of a task's directory; nil and root need not be given it. A task may have
// put a symbolic link in its place: that is an error.
func GiveTo(dir string, user *sandbox.User) error {
	return change(dir, user, func(f *os.File) error { return f.Chown(int(user.UID), int(user.GID)) })
}

// opening keeps two tasks from opening one directory at the same time.
var opening sync.Mutex

// OpenTo lets the user's group, and nobody else but root, enter a directory. One that is open to another
// group already is then open to everybody: a directory has one group.
func OpenTo(dir string, user *sandbox.User) error {
	opening.Lock()
	defer opening.Unlock()
	return change(dir, user, func(f *os.File) error {
		var st unix.Stat_t
		if err := unix.Fstat(int(f.Fd()), &st); err != nil {
			return err
		}
		if shared := st.Mode&0o001 != 0; st.Gid != 0 && (shared || st.Gid != user.GID) {
			return f.Chmod(0o711)
		}
		return errors.Join(f.Chown(0, int(user.GID)), f.Chmod(0o710))
	})
}

func change(dir string, user *sandbox.User, do func(*os.File) error) error {
	if user == nil || user.UID == 0 && user.GID == 0 {
		return nil
	}
	fd, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("giving %s to user %d: %w", dir, user.UID, err)
	}
	f := os.NewFile(uintptr(fd), dir)
	return errors.Join(do(f), f.Close())
}
