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

	// Only what HostPaths show is hidden. Files and volumes of the job show what they show.
	hidden, err := hiddenPlaces(cfg.Hidden, binds)
	if err != nil {
		return err
	}

	// After enterRoot no path of the host can be opened, so all of them are opened before.
	binds = append(binds, systemBinds(cfg.Privileged)...)
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

	// Each step may hide what the steps before it show: covers the files of the host, files of the task the
	// covers, and mounts of the job all others.
	err = hide(hidden)
	if err == nil && len(cfg.Files) > 0 {
		err = showFiles()
	}
	if err == nil {
		err = attachAll(trees[system:], cfg.Privileged)
	}
	if err != nil {
		return err
	}

	// The steps before have written in the root.
	flags := uintptr(unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV)
	return setRoot("the root read-only", unix.MS_REMOUNT|unix.MS_BIND|flags)
}

// systemBinds are the parts of the kernel's files that come from the host.
//
// A program without privileges sees no file system that the host has mounted below /sys, except the cgroups.
// In debugfs, tracefs, bpf and pstore, root needs no capability to read the memory and the work of others.
func systemBinds(privileged bool) []Bind {
	if privileged {
		return []Bind{
			{Source: "/sys", Target: "/sys"},
			{Source: "/dev", Target: "/dev", Propagation: HostToTask, Device: true},
		}
	}
	binds := []Bind{{Source: "/sys", Target: "/sys", ReadOnly: true, alone: true}}
	const groups = "/sys/fs/cgroup"
	_, err := os.Stat(groups)
	if err == nil {
		binds = append(binds, Bind{Source: groups, Target: groups, ReadOnly: true})
	}
	return binds
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

	// An outer path that is mounted later would hide an inner one.
	slices.SortStableFunc(binds, func(a, b Bind) int {
		return strings.Compare(a.Target, b.Target)
	})
	return links, binds, nil
}

// cloneMounts opens a copy of each bind, with the mounts below it unless the bind is alone.
func cloneMounts(binds []Bind) ([]mountTree, error) {
	var trees []mountTree
	for _, b := range binds {
		info, err := os.Stat(b.Source)
		if err != nil {
			return nil, structs.Preconditionf("mounting %s: %w", b.Target, err)
		}

		flags := uint(unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC)
		if !b.alone {
			flags |= unix.AT_RECURSIVE
		}

		fd, err := unix.OpenTree(unix.AT_FDCWD, b.Source, flags)
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
	// The file system has only directories and links. It ends with the namespace, so nothing of it has to be
	// removed.
	err = unix.Mount("berth", root, "tmpfs", flags, "mode=755,size=1m")
	if err != nil {
		return fmt.Errorf("mounting the root: %w", err)
	}

	if err := os.Chdir(root); err != nil {
		return err
	}

	// A second directory for the old root is not needed if both arguments are the same (pivot_root(2)).
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

// ownFS are the file systems that even a privileged task has for itself. /proc shows the pid namespace of the
// sandbox. /run is for the sockets and the pid files of programs, and for /run/berth.
var ownFS = []fileSystem{
	{"proc", "/proc", noSuidDevExec, ""},
	{"tmpfs", "/run", unix.MS_NOSUID | unix.MS_NODEV, "mode=755,size=64m"},
}

// fillRoot fills the root with the parts that every sandbox has.
func fillRoot(links map[string]string, privileged bool, trees []mountTree) error {
	// Programs expect these directories. They are empty unless chroot_env or the job shows something there.
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

	err := attachAll(trees, privileged)
	if err == nil {
		err = makeLinks(links)
	}
	if err != nil || privileged {
		return err
	}

	return errors.Join(makeDev(), maskProc())
}

func makeLinks(links map[string]string) error {
	for at, to := range links {
		err := os.MkdirAll(filepath.Dir(at), 0o755)
		if err == nil {
			err = os.Symlink(to, at)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// attachAll mounts trees in their order, so that a later one hides an earlier one of the same place.
func attachAll(trees []mountTree, privileged bool) error {
	for _, t := range trees {
		if err := t.attach(privileged); err != nil {
			return err
		}
	}
	return nil
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

// propagation lacks Bidirectional: zero leaves a copy a peer of its source.
var propagation = map[string]uint64{
	Private:    unix.MS_PRIVATE,
	HostToTask: unix.MS_SLAVE,
}

// attach mounts the tree on its target, with its attributes.
func (t mountTree) attach(privileged bool) error {
	defer unix.Close(t.fd)
	at, err := makeMountPoint(t.Target, t.dir)
	if err != nil {
		return err
	}
	defer unix.Close(at)

	// The attributes are set before the tree is attached, so no program sees it without them.
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

	err = unix.MoveMount(t.fd, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	if err != nil {
		return fmt.Errorf("mounting %s from %s: %w", t.Target, t.Source, err)
	}

	return nil
}

// makeMountPoint opens a mount point, which it makes if it is not there: a directory or a file.
func makeMountPoint(target string, dir bool) (int, error) {
	fd, err := openOrMake(target, dir)
	if errors.Is(err, unix.EROFS) {
		return -1, structs.Preconditionf(
			"mounting %s: it does not exist, and cannot be made in a read-only directory of the host", target)
	}
	if err != nil {
		return -1, structs.Preconditionf("making the mount point %s: %w", target, err)
	}
	return fd, nil
}

// openOrMake opens a directory or a file of the root, which it makes with its directories if it is not there.
func openOrMake(path string, dir bool) (int, error) {
	fd, err := openInside(path, unix.O_PATH)
	if !errors.Is(err, unix.ENOENT) {
		return fd, err
	}

	// mkdir by the whole path would follow links of /proc on its way.
	parent, err := openOrMake(filepath.Dir(path), true)
	if err != nil {
		return -1, err
	}
	defer unix.Close(parent)

	if dir {
		err = unix.Mkdirat(parent, filepath.Base(path), 0o755)
	} else {
		err = unix.Mknodat(parent, filepath.Base(path), unix.S_IFREG|0o644, 0)
	}

	if err != nil && !errors.Is(err, unix.EEXIST) { // another task may share the directory
		return -1, err
	}

	return openInside(path, unix.O_PATH)
}

// openInside opens a file for a thread of pid 1 among the mounts of the program, where a volume or the
// program itself may have put links. It follows none like /proc/1/root, which would lead to the host.
func openInside(path string, flags uint64) (int, error) {
	return unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{
		Flags:   flags | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_MAGICLINKS,
	})
}

// setRoot changes flags or propagation of the root. change describes that in the error.
func setRoot(change string, flags uintptr) error {
	err := unix.Mount("", "/", "", flags, "")
	if err != nil {
		return fmt.Errorf("mounting %s: %w", change, err)
	}
	return nil
}
