package executor

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"berth/client/driver"
	"berth/client/drivers/sandbox"
	"berth/structs"
)

// The modes of a task's tmp. OwnTmp is for a task that sees the host's paths. OpenTmp is for a task with a
// private root, which sees the directory as /tmp: after a switch of users it can still write there, and no
// other task sees it.
const (
	OwnTmp  os.FileMode = 0o755
	OpenTmp             = 0o777 | os.ModeSticky
)

// GiveDirs makes the user, nil for that of the agent, the owner of the task's own directories. Others may
// read local, and only the user enters secrets. Files in the directories keep their owners. A symbolic link
// that a task has put in the place of a directory is an error.
func GiveDirs(dirs driver.Dirs, user *sandbox.User, tmp os.FileMode) error {
	path := filepath.Join(dirs.Task, "tmp")
	err := os.Mkdir(path, 0o700)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return errors.Join(
		giveTo(dirs.Local, user, 0o755),
		giveTo(path, user, tmp),
		giveTo(dirs.Secrets, user, 0o700))
}

func giveTo(dir string, user *sandbox.User, mode os.FileMode) error {
	return withDirectory(dir, func(f *os.File) error {
		if user != nil {
			err := f.Chown(int(user.UID), int(user.GID))
			if err != nil {
				return err
			}
		}
		return f.Chmod(mode) // after the chown, so that the new owner never has the old mode
	})
}

// opening serializes OpenTo, because tasks of one allocation open the same directory: one reads its owner and
// mode, and changes both.
var opening sync.Mutex

// OpenTo lets the user's group, and no other user except root, enter a directory. A directory has one group,
// so OpenTo opens one that another group may enter to all users.
func OpenTo(dir string, user *sandbox.User) error {
	if user == nil || user.UID == 0 && user.GID == 0 {
		return nil
	}
	opening.Lock()
	defer opening.Unlock()
	return withDirectory(dir, func(f *os.File) error {
		var st unix.Stat_t
		err := unix.Fstat(int(f.Fd()), &st)
		if err != nil {
			return err
		}
		shared := st.Mode&0o001 != 0
		if st.Gid != 0 && (shared || st.Gid != user.GID) {
			return f.Chmod(0o711)
		}
		return errors.Join(f.Chown(0, int(user.GID)), f.Chmod(0o710))
	})
}

// SetMode sets the mode of a directory. A symbolic link in its place is an error.
func SetMode(dir string, mode os.FileMode) error {
	return withDirectory(dir, func(f *os.File) error { return f.Chmod(mode) })
}

func withDirectory(dir string, do func(*os.File) error) error {
	f, err := os.OpenFile(dir, unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return structs.Preconditionf("giving %s to the task's user: %w", dir, err)
	}
	return errors.Join(do(f), f.Close())
}
