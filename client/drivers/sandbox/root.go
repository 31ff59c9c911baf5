package sandbox

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"berth/structs"
)

// mountTree is a copy of a part of the host's mounts that is not attached yet. buildRoot makes the copy
// before it separates the namespace from the host, so the copy keeps its peers, which a bidirectional bind
// needs.
type mountTree struct {
	Bind
	fd  int
	dir bool
}

// buildRoot replaces the root of the calling process's mount namespace.
func buildRoot(cfg *Config) error {
	links, binds, err := hostPaths(cfg.HostPaths)
	if err != nil {
		return err
	}
	binds = append(binds, Bind{
		Source:   "/sys",
		Target:   "/sys",
		ReadOnly: !cfg.Privileged,
	})
	if cfg.Privileged {
		binds = append(binds, Bind{
			Source:      "/dev",
			Target:      "/dev",
			Propagation: HostToTask,
			Device:      true,
		})
	}
	binds = append(binds, fileBinds(cfg.Files)...)
	system := len(binds)
	trees, err := cloneMounts(append(binds, cfg.Binds...))
	if err != nil {
		return err
	}
	err = enterRoot(cfg.Root)
	if err != nil {
		return err
	}
	err = fillRoot(links, cfg.Privileged, trees[:system])
	if err != nil {
		return err
	}
	if len(cfg.Files) > 0 {
		err := showFiles()
		if err != nil {
			return err
		}
	}
	for _, t := range trees[system:] {
		if err := t.attach(cfg.Privileged); err != nil {
			return err
		}
	}
	flags := uintptr(unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV)
	return setRoot("the root read-only", unix.MS_REMOUNT|unix.MS_BIND|flags)
}

// hostPaths sorts the visible paths of the host into symlinks (path to target) and binds, outer paths first.
func hostPaths(paths map[string]string) (links map[string]string, binds []Bind, err error) {
	links = map[string]string{}
	for _, at := range slices.Sorted(maps.Keys(paths)) {
		info, err := os.Lstat(at)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		if info.Mode()&os.ModeSymlink == 0 {
			binds = append(binds, Bind{
				Source:   at,
				Target:   paths[at],
				ReadOnly: true,
			})
			continue
		}
		links[paths[at]], err = os.Readlink(at)
		if err != nil {
			return nil, nil, err
		}
	}
	slices.SortStableFunc(binds, func(a, b Bind) int {
		return strings.Compare(a.Target, b.Target)
	})
	return links, binds, nil
}

func cloneMounts(binds []Bind) ([]mountTree, error) {
	var trees []mountTree
	for _, b := range binds {
		info, err := os.Stat(b.Source)
		if err != nil {
			return nil, structs.Preconditionf("mounting %s: %w", b.Target, err)
		}
		fd, err := unix.OpenTree(unix.AT_FDCWD,
			b.Source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
		if err != nil {
			return nil, fmt.Errorf("mounting %s from %s: %w", b.Target, b.Source, err)
		}
		trees = append(trees, mountTree{b, fd, info.IsDir()})
	}
	return trees, nil
}

// enterRoot separates the namespace from the host and makes an empty file system its root.
func enterRoot(root string) error {
	err := setRoot("the host's mounts as slaves", unix.MS_REC|unix.MS_SLAVE)
	if err != nil {
		return err
	}
	const flags = unix.MS_NOSUID | unix.MS_NODEV
	err = unix.Mount("berth", root, "tmpfs", flags, "mode=755,size=1m")
	if err != nil {
		return fmt.Errorf("mounting the root: %w", err)
	}
	if err := os.Chdir(root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil { // the old root is now stacked on the new one
		return fmt.Errorf("changing the root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmounting the host's root: %w", err)
	}
	return os.Chdir("/")
}

// fileSystem is a file system of the sandbox's own.
type fileSystem struct {
	kind, target string
	flags        uintptr
	data         string
}

const noSuidDevExec = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC

var ownFS = []fileSystem{
	{"proc", "/proc", noSuidDevExec, ""},
	{"tmpfs", "/run", unix.MS_NOSUID | unix.MS_NODEV, "mode=755,size=64m"},
}

// fillRoot fills the root with the parts that every sandbox has.
func fillRoot(links map[string]string, privileged bool, trees []mountTree) error {
	emptyDirs := []string{"/root", "/var", "/mnt", "/srv", "/home"}
	for _, dir := range emptyDirs {
		if _, link := links[dir]; link {
			continue
		}
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	links["/var/tmp"] = "../tmp"
	links["/var/run"] = "../run"
	for _, f := range ownFS {
		if err := f.mount(); err != nil {
			return err
		}
	}
	for _, t := range trees {
		if err := t.attach(privileged); err != nil {
			return err
		}
	}
	for at, to := range links {
		err := os.MkdirAll(filepath.Dir(at), 0o755)
		if err == nil {
			err = os.Symlink(to, at)
		}
		if err != nil {
			return err
		}
	}
	if privileged {
		return nil
	}
	return errors.Join(makeDev(), maskProc())
}

func (f fileSystem) mount() error {
	err := os.MkdirAll(f.target, 0o755)
	if err != nil {
		return err
	}
	err = unix.Mount(f.kind, f.target, f.kind, f.flags, f.data)
	if err != nil {
		return fmt.Errorf("mounting %s on %s: %w", f.kind, f.target, err)
	}
	return nil
}

var propagation = map[string]uint64{
	Private:    unix.MS_PRIVATE,
	HostToTask: unix.MS_SLAVE,
}

// attach mounts the tree on its target, with its attributes.
func (t mountTree) attach(privileged bool) error {
	defer unix.Close(t.fd)
	err := makeMountPoint(t.Target, t.dir)
	if err != nil {
		return err
	}
	attr := unix.MountAttr{Propagation: propagation[t.Propagation]}
	if t.ReadOnly {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	if !privileged {
		attr.Attr_set |= unix.MOUNT_ATTR_NOSUID
	}
	if !t.Device && !privileged {
		attr.Attr_set |= unix.MOUNT_ATTR_NODEV
	}
	err = unix.MountSetattr(t.fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr)
	if err != nil {
		return fmt.Errorf("setting the mount attributes of %s: %w", t.Target, err)
	}
	err = unix.MoveMount(t.fd, "", unix.AT_FDCWD, t.Target, unix.MOVE_MOUNT_F_EMPTY_PATH)
	if err != nil {
		return fmt.Errorf("mounting %s from %s: %w", t.Target, t.Source, err)
	}
	return nil
}

// makeMountPoint makes a mount point: a directory or a file.
func makeMountPoint(target string, dir bool) error {
	parent := target
	if !dir {
		parent = filepath.Dir(target)
	}
	err := os.MkdirAll(parent, 0o755)
	if err == nil && !dir {
		var f *os.File
		f, err = os.OpenFile(target, os.O_CREATE|os.O_RDONLY, 0o644)
		_ = f.Close() // a nil file after an error
	}
	if errors.Is(err, unix.EROFS) {
		return structs.Preconditionf(
			"mounting %s: it does not exist, and cannot be made in a read-only directory of the host", target)
	}
	if err != nil {
		return structs.Preconditionf("making the mount point %s: %w", target, err)
	}
	return nil
}

// setRoot changes flags or propagation of the root. change describes that in the error.
func setRoot(change string, flags uintptr) error {
	err := unix.Mount("", "/", "", flags, "")
	if err != nil {
		return fmt.Errorf("mounting %s: %w", change, err)
	}
	return nil
}
