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

// fileBinds shows each path under its name in filesDir. A bind of a directory also shows the files that are
// replaced later. A bind of a single file shows the one at the start.
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

// showFiles writes links into the root, so it runs before the root becomes read-only. The mounts of the job
// come later and hide them.
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

	// A directory such as /bin may be a link of the host. It has one cover, by whichever name its files come.
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

	return l.addCover(real, filepath.Join(dir, name), target)
}

// addCover notes a link for a directory of the host. In a writable one, a link would be a write to the host,
// and a cover would make the directory read-only.
func (l *linker) addCover(dir, path, target string) error {
	var mount unix.Statfs_t
	err := unix.Statfs(dir, &mount)
	if err != nil {
		return err
	}

	if mount.Flags&unix.ST_RDONLY == 0 {
		return structs.Preconditionf("the file %s of the task cannot be shown in %s, which is writable",
			path, dir)
	}

	if l.covers[dir] == nil {
		l.covers[dir] = map[string]string{}
	}

	l.covers[dir][filepath.Base(path)] = target
	return nil
}

// deviceOf returns the number of the file system of a path.
func deviceOf(path string) (uint64, error) {
	var st unix.Stat_t
	err := unix.Stat(path, &st)
	return st.Dev, err
}

// coverDir shows links in a directory of the host, which stays as it is: an overlay of both, read-only, hides
// it. The mounts below the directory come above the overlay.
func coverDir(dir string, links map[string]string) error {
	layer, err := makeLayer(links)
	if err != nil {
		return err
	}

	// An overlay shows its layers without the mounts in them, so these are copied before.
	below, err := mountsBelow(dir)
	if err != nil {
		return err
	}

	// These characters separate options and layers.
	escape := strings.NewReplacer(`\`, `\\`, ":", `\:`, ",", `\,`)
	// The first layer is the upper one, so the links of the task win.
	err = unix.Mount("berth", dir, "overlay", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV,
		"lowerdir="+layer+":"+escape.Replace(dir))
	if err != nil {
		closeAll(below)
		return err
	}

	return reattach(below, dir, links)
}

// makeLayer makes a directory of links. It stays in /run/berth as long as the sandbox.
func makeLayer(links map[string]string) (string, error) {
	layer, err := os.MkdirTemp("/run/berth", "links")
	if err == nil {
		// The user of the program follows the links.
		err = os.Chmod(layer, 0o755)
	}
	if err != nil {
		return "", err
	}

	for name, target := range links {
		err := os.Symlink(target, filepath.Join(layer, name))
		if err != nil {
			return "", err
		}
	}

	return layer, nil
}

// reattach mounts the copies of the mounts below a directory again, above its cover, and closes them.
func reattach(below []mountTree, dir string, links map[string]string) error {
	// Outer mounts come first, so that the places of the inner ones exist.
	for i, t := range below {
		// A link of the task is in the place of a file that is mounted there, such as the cover of a hidden
		// one.
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
