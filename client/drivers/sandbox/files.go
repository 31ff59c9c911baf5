package sandbox

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

	"berth/structs"
)

// filesDir has the files of Config.Files.
const filesDir = "/run/berth/files"

// maxLinks bounds the links to files of Config.Files.
const maxLinks = 1000

func fileBinds(paths []string) (binds []Bind) {
	for _, path := range paths {
		binds = append(binds, Bind{
			Source:   path,
			Target:   filepath.Join(filesDir, filepath.Base(path)),
			ReadOnly: true,
		})
	}
	return binds
}

// linker shows the content of filesDir at the same paths of the root, by links: through a link the program
// sees that a file is replaced. It writes only in file systems of the sandbox's own.
type linker struct {
	ownRoot uint64 // the device of the root
	count   int
	// covers are the links that the directories of the host get: targets by the directory and the name.
	covers map[string]map[string]string
}

func showFiles() error {
	own, err := deviceOf("/")
	if err != nil {
		return err
	}

	l := &linker{
		ownRoot: own,
		covers:  map[string]map[string]string{},
	}
	err = l.merge("/")
	if err != nil {
		return err
	}

	dirs := slices.Sorted(maps.Keys(l.covers))
	for _, dir := range slices.Backward(dirs) { // inner ones first: an overlay does not nest in others
		err := coverDir(dir, l.covers[dir])
		if err != nil {
			return fmt.Errorf("showing files of the task in %s: %w", dir, err)
		}
	}

	return nil
}

// merge links the entries of a directory of filesDir. It descends where the root has the directory, too.
func (l *linker) merge(dir string) error {
	entries, err := os.ReadDir(filepath.Join(filesDir, dir))
	if err != nil {
		return err
	}

	for _, e := range entries {
		at := filepath.Join(dir, e.Name())
		info, err := os.Stat(at) // follows links of the host, such as /bin
		isDir := err == nil && info.IsDir()
		switch {
		case isDir && e.IsDir():
			err = l.merge(at)
		case isDir:
			err = structs.Preconditionf("the file %s of the task would hide a directory of its root", at)
		default:
			err = l.link(dir, e.Name())
		}
		if err != nil {
			return err
		}
	}

	return nil
}

// link adds one link: in a directory of the root itself at once, in a read-only one of the host by its cover.
func (l *linker) link(dir, name string) error {
	l.count++
	if l.count > maxLinks {
		return structs.Preconditionf("the task has more than %d files beside local, secrets, tmp and alloc",
			maxLinks)
	}

	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}

	device, err := deviceOf(real)
	if err != nil {
		return err
	}

	target := filepath.Join(filesDir, dir, name)
	if device == l.ownRoot {
		err := os.Symlink(target, filepath.Join(real, name))
		if err != nil {
			return structs.Preconditionf("showing the file %s of the task: %w", filepath.Join(dir, name), err)
		}
		return nil
	}

	var mount unix.Statfs_t
	err = unix.Statfs(real, &mount)
	if err != nil {
		return err
	}

	if mount.Flags&unix.ST_RDONLY == 0 {
		return structs.Preconditionf("the file %s of the task cannot be shown in %s, which is writable",
			filepath.Join(dir, name), real)
	}

	if l.covers[real] == nil {
		l.covers[real] = map[string]string{}
	}

	l.covers[real][name] = target
	return nil
}

func deviceOf(path string) (uint64, error) {
	var st unix.Stat_t
	err := unix.Stat(path, &st)
	return st.Dev, err
}

// coverDir shows links in a directory of the host, which stays as it is: an overlay of both, read-only, hides
// it. The mounts below the directory come above the overlay.
func coverDir(dir string, links map[string]string) error {
	layer, err := os.MkdirTemp("/run/berth", "links")
	if err == nil {
		// The user of the program follows the links.
		err = os.Chmod(layer, 0o755)
	}
	if err != nil {
		return err
	}

	for name, target := range links {
		err := os.Symlink(target, filepath.Join(layer, name))
		if err != nil {
			return err
		}
	}

	below, err := mountsBelow(dir)
	if err != nil {
		return err
	}

	// These characters separate options and layers.
	escape := strings.NewReplacer(`\`, `\\`, ":", `\:`, ",", `\,`)
	err = unix.Mount("berth", dir, "overlay", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV,
		"lowerdir="+layer+":"+escape.Replace(dir))
	if err != nil {
		closeAll(below)
		return err
	}

	for i, t := range below {
		// A link of the task is in the place of a file that is mounted there, such as the cover of a hidden one.
		if filepath.Dir(t.Target) == dir && links[filepath.Base(t.Target)] != "" {
			_ = unix.Close(t.fd)
			continue
		}

		err := unix.MoveMount(t.fd, "", unix.AT_FDCWD, t.Target, unix.MOVE_MOUNT_F_EMPTY_PATH)
		if err != nil {
			closeAll(below[i:])
			return err
		}

		_ = unix.Close(t.fd)
	}

	return nil
}

func closeAll(trees []mountTree) {
	for _, t := range trees {
		_ = unix.Close(t.fd)
	}
}

// mountsBelow copies the mounts below a directory that are visible, with their attributes, outer ones first.
func mountsBelow(dir string) (trees []mountTree, err error) {
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(dir))
	if err != nil {
		return nil, err
	}

	targets := map[string]bool{} // the table is in no order of paths, and has hidden mounts, too
	for _, m := range mounts {
		targets[m.Mountpoint] = m.Mountpoint != dir
	}

	for _, target := range slices.Sorted(maps.Keys(targets)) {
		if !targets[target] {
			continue
		}

		fd, err := unix.OpenTree(unix.AT_FDCWD, target, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
		if errors.Is(err, unix.ENOENT) {
			continue // hidden
		}
		if err != nil {
			closeAll(trees)
			return nil, err
		}

		trees = append(trees, mountTree{Bind{Target: target}, fd, false})
	}

	return trees, nil
}
