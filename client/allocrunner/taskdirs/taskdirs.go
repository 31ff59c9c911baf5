// Package taskdirs makes and removes the directories of an allocation, and knows the place of each. They are
// below <data dir>/alloc/<alloc id>:
//
//	alloc/data alloc/logs alloc/tmp    shared by its tasks
//	<task>/local <task>/secrets <task>/tmp
//
// A task may put anything in their places. So the functions follow no link of a task, and remove nothing
// while something is mounted below.
package taskdirs

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"berth/client/drivers/driver"
	"berth/internal/logfile"
	"berth/structs"
)

const (
	sharedName  = "alloc"
	secretsName = "secrets"
)

// dirMode is the mode of a directory.
type dirMode struct {
	os.FileMode
	once bool // a driver changes it later: an existing directory keeps its mode
}

// layout lists the directories of an allocation with their modes. The shared ones are open to the users of
// all tasks. A task's own belong to root until its driver, which knows the task's user, gives them to that
// user. A restarted agent leaves changes of drivers and tasks alone. A closed directory above them keeps the
// other users of the machine out: a driver with roots shows each task the inner directories only. A driver
// without roots opens the closed ones to the user of the task.
func layout(root string, g *structs.TaskGroup) map[string]dirMode {
	shared := filepath.Join(root, sharedName)
	opens := slices.ContainsFunc(g.Tasks, mayOpenDirs)
	dirs := map[string]dirMode{
		root:                          {0o700, opens},
		shared:                        {0o755, false},
		filepath.Join(shared, "data"): {0o777, false},
		filepath.Join(shared, "logs"): {0o755, false},
		filepath.Join(shared, "tmp"):  {0o777 | os.ModeSticky, false},
	}

	for _, t := range g.Tasks {
		dir := filepath.Join(root, t.Name)
		dirs[dir] = dirMode{0o700, mayOpenDirs(t)}
		dirs[filepath.Join(dir, "local")] = dirMode{0o755, true}
		dirs[filepath.Join(dir, "tmp")] = dirMode{0o755, true}
		dirs[filepath.Join(dir, secretsName)] = dirMode{0o700, true}
	}

	return dirs
}

// mayOpenDirs reports whether the task's driver may open the closed directories. exec makes its own root,
// beside them, and so does connect.
func mayOpenDirs(t *structs.Task) bool { return t.Driver != "exec" && t.Driver != "connect" }

// Make makes the missing directories of an allocation of a group, outer ones first.
func Make(root string, g *structs.TaskGroup) error {
	dirs := layout(root, g)
	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		var err error
		if dir == Logs(root) { // the tasks go on without it, and their next output makes it, too
			err = logfile.MakeDir(dir)
		}
		if err == nil {
			err = makeDir(root, dir, dirs[dir])
		}
		if err != nil {
			return fmt.Errorf("making the allocation's directories: %w", err)
		}
	}
	return nil
}

// makeDir makes one directory of an allocation, or sets the mode of an existing one. Earlier tasks may have
// put anything in its place: through a symbolic link, makeDir would change the mode of the host's own
// directories.
func makeDir(root, dir string, mode dirMode) error {
	found, err := os.Lstat(dir)
	there := err == nil
	if there && !found.IsDir() {
		return replacedError(root, dir)
	}

	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}

	f, err := os.OpenFile(dir, unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, unix.ELOOP) ||
		errors.Is(err, unix.ENOTDIR) {
		return replacedError(root, dir)
	}
	if err != nil {
		return err
	}

	if !there || !mode.once {
		err = f.Chmod(mode.FileMode) // umask does not bind chmod
	}

	return errors.Join(err, f.Close())
}

// replacedError names the directory as the owner of the job knows it, and no path of the node.
func replacedError(root, dir string) error {
	return structs.Preconditionf("%s is not a directory any more: a task put something else in its place; "+
		"stop the allocation: the next one gets new directories", strings.TrimPrefix(dir, root+"/"))
}

// OfTask returns a task's directories on the host, for its driver.
func OfTask(root, task string) driver.Dirs {
	dir := filepath.Join(root, task)
	return driver.Dirs{
		Task:        dir,
		AllocShared: filepath.Join(root, sharedName),
		Local:       filepath.Join(dir, "local"),
		Secrets:     Secrets(root, task),
		Logs:        Logs(root),
	}
}

// Shared returns the directory that the tasks of an allocation share, below the allocation's directory.
func Shared(allocDir string) string {
	return filepath.Join(allocDir, sharedName)
}

// Secrets returns the directory of the secrets of a task, below the allocation's directory.
func Secrets(allocDir, task string) string {
	return filepath.Join(allocDir, task, secretsName)
}

// Logs returns the directory of the logs of an allocation's tasks, below the allocation's directory.
func Logs(allocDir string) string {
	return filepath.Join(allocDir, sharedName, "logs")
}

// Remove removes an allocation's directory. It fails while anything is mounted in it: mounted files do
// not belong to the allocation.
func Remove(root string) error {
	resolved, err := filepath.EvalSymlinks(root)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("removing the allocation's directory: %w", err)
	}

	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(resolved))
	if err != nil {
		return fmt.Errorf("reading the mount table: %w", err)
	}

	var below []string
	for _, m := range mounts {
		below = append(below, m.Mountpoint)
	}

	if len(below) > 0 {
		return structs.Preconditionf(
			"not removing %s: mounted in it are still %s", resolved, strings.Join(below, ", "))
	}

	return os.RemoveAll(resolved)
}
