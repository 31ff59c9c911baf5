package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"berth/client/drivers/driver"
	"berth/internal/files"
	"berth/structs"
)

// The modes of a task's tmp. OwnTmp is for a task that sees the host's paths. OpenTmp is for a task with a
// private root, which sees the directory as /tmp: after a switch of users it can still write there, and no
// other task sees it.
const (
	OwnTmp  os.FileMode = 0o755
	OpenTmp             = 0o777 | os.ModeSticky
)

// GiveTaskDirs makes the user, nil for the agent's, the owner of the task's own directories. Others may read
// local, and only the user enters secrets. Files in the directories keep their owners, except
// driver.SecretFiles and the tokens. A symbolic link that a task has put in the place of a directory is an
// error.
func GiveTaskDirs(dirs driver.Dirs, user *User, tmp os.FileMode) error {
	path := filepath.Join(dirs.Task, "tmp")
	err := os.Mkdir(path, 0o700)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return errors.Join(
		giveTo(dirs.Local, user, 0o755),
		giveTo(path, user, tmp),
		giveTo(dirs.Secrets, user, 0o700),
		changeSecretFiles(dirs, func(f *os.File) error {
			if user == nil {
				return nil
			}
			return f.Chown(int(user.UID), int(user.GID))
		}))
}

// OpenSecretFiles lets all users read the files of driver.SecretFiles, and the tokens: for a task whose user
// only its driver knows.
func OpenSecretFiles(dirs driver.Dirs) error {
	return changeSecretFiles(dirs, func(f *os.File) error { return f.Chmod(0o444) })
}

// changeSecretFiles changes the files of the agent in the directories of a task. It leaves alone whatever the
// task has put in their place, also further links to files of the host, and follows no link out of the task's
// directory.
func changeSecretFiles(dirs driver.Dirs, change func(*os.File) error) error {
	own, err := os.OpenRoot(filepath.Dir(dirs.Secrets))
	if err != nil {
		return err
	}
	defer func() { _ = own.Close() }()

	list := slices.Clone(dirs.Tokens)
	for _, name := range driver.SecretFiles {
		list = append(list, filepath.Join(filepath.Base(dirs.Secrets), name))
	}

	for _, name := range list {
		err := changeBelow(own, name, change)
		if err != nil {
			return fmt.Errorf("giving %s to the task's user: %w", name, err)
		}
	}

	return nil
}

// changeBelow changes a file of the agent below the directory of a task. It does nothing without the file.
func changeBelow(own *os.Root, name string, change func(*os.File) error) error {
	dir, err := own.OpenRoot(filepath.Dir(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	return changeSecretFile(dir, filepath.Base(name), change)
}

func changeSecretFile(dir *os.Root, name string, change func(*os.File) error) error {
	at, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer func() { _ = at.Close() }()

	f, err := files.OpenPlain(at, name, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) || structs.IsKind(err, structs.KindPrecondition) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()

	var st unix.Stat_t
	err = unix.Fstat(int(f.Fd()), &st)
	if err != nil {
		return err
	}

	// A file with another link may be one of the host that the task has linked here.
	ofAgent := int(st.Uid) == os.Geteuid() && st.Nlink == 1
	if !ofAgent {
		return nil
	}

	return change(f)
}

func giveTo(dir string, user *User, mode os.FileMode) error {
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

// opening serializes OpenTaskDir, because tasks of one allocation open the same directory: one reads its
// owner and mode, and changes both.
var opening sync.Mutex

// OpenTaskDir lets the user's group, and no other user except root, enter a directory. A directory has one
// group, so OpenTaskDir opens one that another group may enter to all users.
func OpenTaskDir(dir string, user *User) error {
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

// SetTaskDirMode sets the mode of a directory. A symbolic link in its place is an error.
func SetTaskDirMode(dir string, mode os.FileMode) error {
	return withDirectory(dir, func(f *os.File) error { return f.Chmod(mode) })
}

// withDirectory opens a directory and changes it by its descriptor, so that nothing can take its place in
// between.
func withDirectory(dir string, do func(*os.File) error) error {
	f, err := os.OpenFile(dir, unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return structs.Preconditionf("giving %s to the task's user: %w", dir, err)
	}
	return errors.Join(do(f), f.Close())
}
