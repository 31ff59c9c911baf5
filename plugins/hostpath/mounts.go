package hostpath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"

	"berth/plugins/hostpath/disk"
)

// checkPath validates a path of an orchestrator and resolves the links above its last element.
func (d *driver) checkPath(field, path string) (string, error) {
	switch {
	case path == "":
		return "", disk.Invalidf("%s is missing", field)
	case !filepath.IsAbs(path),
		strings.ContainsRune(path, 0),
		filepath.Clean(path) == "/":
		return "", disk.Invalidf("%s %q is not an absolute path below /", field, path)
	}

	clean := filepath.Clean(path)
	// The mount table has paths without links.
	parent, err := filepath.EvalSymlinks(filepath.Dir(clean))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		parent = filepath.Dir(clean) // nothing can be mounted there; a later step fails if it needs it
	case err != nil:
		return "", disk.Invalidf("%s: %w", field, err)
	}

	real := filepath.Join(parent, filepath.Base(clean))
	// A mount there would cover the data of volumes.
	if within(real, d.store.Dir) {
		return "", disk.Invalidf("%s %q is inside the driver's data directory", field, path)
	}

	// A mount would follow the link to a path that was not checked.
	info, err := os.Lstat(real)
	if err == nil && info.Mode().Type() == fs.ModeSymlink {
		return "", disk.Invalidf("%s %q is a symbolic link", field, path)
	}

	return real, nil
}

// isMounted reports whether anything is mounted on a path.
func isMounted(path string) (bool, error) {
	list, err := mountinfo.GetMounts(mountinfo.SingleEntryFilter(path))
	if err != nil {
		return false, fmt.Errorf("reading the mount table: %w", err)
	}
	return len(list) > 0, nil
}

// showsVolume reports whether a path shows the volume: its directory, a loop device that shows its image, or
// the file system on such a device.
func (d *driver) showsVolume(v *disk.Volume, path string) (bool, error) {
	var at unix.Stat_t
	err := unix.Stat(path, &at)
	switch {
	case errors.Is(err, unix.ENOENT):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("%s: %w", path, err)
	}

	if v.Type == disk.Directory {
		var data unix.Stat_t
		err := unix.Stat(d.dataOf(v), &data)
		return at.Dev == data.Dev && at.Ino == data.Ino, err
	}

	devices, err := disk.LoopsOf(d.dataOf(v))
	if err != nil {
		return false, err
	}

	isNode := at.Mode&unix.S_IFMT == unix.S_IFBLK
	// A file on the device has its number as st_dev, the node of the device as st_rdev.
	return slices.ContainsFunc(devices, func(l disk.LoopDevice) bool {
		return l.Rdev == uint64(at.Dev) ||
			isNode && l.Rdev == uint64(at.Rdev)
	}), nil
}

// shownAt reports whether the volume is mounted on a path. If something else is mounted there it returns an
// error: the driver must not cover or unmount that.
func (d *driver) shownAt(v *disk.Volume, path string) (bool, error) {
	mounted, err := isMounted(path)
	if err != nil || !mounted {
		return false, err
	}
	ours, err := d.showsVolume(v, path)
	if err == nil && !ours {
		err = disk.Faultf(codes.Internal,
			"something that is not volume %s is mounted on %s", v.ID, path)
	}
	return ours, err
}

// checkUnexposed rejects a directory volume if a mount shows it or a part of it, or is inside it.
func (d *driver) checkUnexposed(v *disk.Volume) error {
	list, err := mountinfo.GetMounts(nil)
	if err != nil {
		return fmt.Errorf("reading the mount table: %w", err)
	}

	dir := d.store.Volumes.Path(v.ID)
	var base *mountinfo.Info // the mount that has the data directory
	for _, m := range list {
		if !within(dir, m.Mountpoint) || dir == m.Mountpoint {
			continue
		}

		// Of two mounts on one path the later one covers the earlier.
		if base == nil || len(m.Mountpoint) >= len(base.Mountpoint) {
			base = m
		}
	}

	for _, m := range list {
		inside := within(m.Mountpoint, dir)

		// A bind mount may show the volume at a path outside of it: its root is compared, too.
		if base != nil && !inside {
			root := filepath.Join(base.Root, strings.TrimPrefix(dir, base.Mountpoint))
			inside = m.Major == base.Major &&
				m.Minor == base.Minor &&
				within(m.Root, root)
		}

		if inside {
			return disk.Preconditionf("volume %s is in use at %s", v.ID, m.Mountpoint)
		}
	}

	return nil
}

// within reports whether path is dir or below it.
func within(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}

// bindMount binds source to path, with the per-mount flags of bits. If the path is bound it only sets the
// flags, because a killed call may have set none.
func (d *driver) bindMount(source, path string, bits uintptr, bound bool) error {
	if !bound {
		err := unix.Mount(source, path, "", unix.MS_BIND, "")
		if err != nil {
			return fmt.Errorf("binding %s to %s: %w", source, path, err)
		}
	}

	bits &= perMountFlags
	if bits == 0 {
		return nil
	}

	flags := unix.MS_BIND | unix.MS_REMOUNT | bits
	err := disk.RetryBusy(d.ctx, func() error {
		return unix.Mount("", path, "", flags, "")
	})
	if err == nil {
		return nil
	}

	// Without its flags the mount could be written to, or more, so it does not stay.
	err = fmt.Errorf("setting the mount flags of %s: %w", path, err)
	return errors.Join(err, disk.RetryBusy(d.ctx, func() error {
		return unix.Unmount(path, unix.UMOUNT_NOFOLLOW)
	}))
}

// unmountAll unmounts the volume from a path: a crash between a mount and its mark may have stacked two
// mounts. A mount that stays busy is an error.
func (d *driver) unmountAll(v *disk.Volume, path string) error {
	err := disk.RetryBusy(d.ctx, func() error {
		return d.unmountNow(v, path)
	})
	if errors.Is(err, unix.EBUSY) {
		return disk.Faultf(codes.Unavailable,
			"volume %s is still in use at %s: %w", v.ID, path, err)
	}
	return err
}

// unmountNow is one attempt of unmountAll. It checks before each unmount whether the path shows the volume.
func (d *driver) unmountNow(v *disk.Volume, path string) error {
	for {
		shown, err := d.shownAt(v, path)
		if err != nil || !shown {
			return err
		}
		err = unix.Unmount(path, unix.UMOUNT_NOFOLLOW)
		if err != nil {
			crash("unmount busy")
			return fmt.Errorf("unmounting %s: %w", path, err)
		}
	}
}
