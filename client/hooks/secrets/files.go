package secrets

import (
	"os"
	"path/filepath"
	"syscall"

	"berth/client/drivers/driver"
	"berth/internal/files"
)

// fileMode is the mode of the agent's files. The driver of the task gives them to its user.
const fileMode = 0o440

// Write makes or replaces a file of the agent among the secrets of a task.
func Write(dirs driver.Dirs, name, text string) error {
	return within(dirs, func(dir *os.Root) error {
		return files.ReplaceIn(dir, name, files.File{
			Text: text,
			Mode: fileMode,
			UID:  -1,
			GID:  -1,
		})
	})
}

// Rewrite replaces a file of the agent that the task may have by now: the owner and the mode that its driver
// has given it stay. Without the file it is Write.
func Rewrite(dirs driver.Dirs, name, text string) error {
	return within(dirs, func(dir *os.Root) error {
		f := files.File{
			Text: text,
			Mode: fileMode,
			UID:  -1,
			GID:  -1,
		}

		// The task may have put something else in its place, which gives nothing.
		info, err := dir.Lstat(name)
		if err == nil && info.Mode().IsRegular() {
			f.Mode = info.Mode().Perm()
			if s, ok := info.Sys().(*syscall.Stat_t); ok {
				f.UID = int(s.Uid)
				f.GID = int(s.Gid)
			}
		}

		return files.ReplaceIn(dir, name, f)
	})
}

// Read returns the text of a plain file among the secrets of a task. It has at most max bytes. Without the
// file the error is fs.ErrNotExist.
func Read(dirs driver.Dirs, name string, max int) (text string, err error) {
	err = within(dirs, func(dir *os.Root) error {
		var err error
		text, err = files.ReadIn(dir, name, max)
		return err
	})
	return text, err
}

// Remove removes a file among the secrets of a task. A missing one is no error.
func Remove(dirs driver.Dirs, name string) error {
	return within(dirs, func(dir *os.Root) error { return dir.RemoveAll(name) })
}

// within opens the directory of a task's secrets, without a symbolic link that leads out of the task's.
func within(dirs driver.Dirs, do func(*os.Root) error) error {
	own, err := os.OpenRoot(dirs.Task)
	if err != nil {
		return err
	}
	defer func() { _ = own.Close() }()
	dir, err := own.OpenRoot(filepath.Base(dirs.Secrets))
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	return do(dir)
}
