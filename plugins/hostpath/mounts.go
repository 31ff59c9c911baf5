package hostpath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
)

// flagBits are the mount options that the kernel takes as bits, with the bit they set or clear. All but
// those of the file system (data below) may be given for directory volumes.
var flagBits = map[string]struct {
	bit   uintptr
	clear bool
}{
	"rw": {unix.MS_RDONLY, true}, "ro": {unix.MS_RDONLY, false},
	"suid": {unix.MS_NOSUID, true}, "nosuid": {unix.MS_NOSUID, false},
	"dev": {unix.MS_NODEV, true}, "nodev": {unix.MS_NODEV, false},
	"exec": {unix.MS_NOEXEC, true}, "noexec": {unix.MS_NOEXEC, false},
	"atime": {unix.MS_NOATIME, true}, "noatime": {unix.MS_NOATIME, false},
	"diratime": {unix.MS_NODIRATIME, true}, "nodiratime": {unix.MS_NODIRATIME, false},
	"relatime": {unix.MS_RELATIME, false}, "norelatime": {unix.MS_RELATIME, true},
	"strictatime": {unix.MS_STRICTATIME, false},
	"sync":        {unix.MS_SYNCHRONOUS, false}, "async": {unix.MS_SYNCHRONOUS, true},
	"dirsync": {unix.MS_DIRSYNC, false},
}

// perMount are the flags that a bind mount can have independently.
const perMount = unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_NOATIME |
	unix.MS_NODIRATIME | unix.MS_RELATIME | unix.MS_STRICTATIME

// mountFlags parses mount options: bits for the kernel and data for the file system. It refuses options that
// would change the source or the target of the mount.
func mountFlags(options []string) (bits uintptr, data []string, err error) {
	for _, list := range options {
		for o := range strings.SplitSeq(list, ",") {
			o = strings.TrimSpace(o)
			f, known := flagBits[o]
			switch {
			case o == "" || o == "defaults":
			case known && f.clear:
				bits &^= f.bit
			case known:
				bits |= f.bit
			case strings.Contains(o, "bind") || strings.Contains(o, "shared") || strings.Contains(o, "slave") ||
				strings.Contains(o, "private") || o == "remount" || o == "move" || o == "loop" ||
				strings.HasPrefix(o, "loop="):
				return 0, nil, invalidf(
					"a mount flag is not allowed: it is the driver's to decide how a volume is mounted")
			default:
				data = append(data, o)
			}
		}
	}
	return bits, data, nil
}

// checkPath validates a path an orchestrator gave us and resolves the links above its last element.
func (d *driver) checkPath(field, path string) (string, error) {
	switch {
	case path == "":
		return "", invalidf("%s is missing", field)
	case !filepath.IsAbs(path), strings.ContainsRune(path, 0), filepath.Clean(path) == "/":
		return "", invalidf("%s %q is not an absolute path below /", field, path)
	}
	clean := filepath.Clean(path)
	parent, err := filepath.EvalSymlinks(filepath.Dir(clean))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		parent = filepath.Dir(clean) // nothing can be mounted below it; a later step fails if it needs it
	case err != nil:
		return "", invalidf("%s: %w", field, err)
	}
	real := filepath.Join(parent, filepath.Base(clean))
	if within(real, d.store.dir) {
		return "", invalidf("%s %q is inside the driver's data directory", field, path)
	}
	if info, err := os.Lstat(real); err == nil && info.Mode().Type() == fs.ModeSymlink {
		return "", invalidf("%s %q is a symbolic link", field, path)
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

// isOurs reports whether a path shows the volume: the very directory, or a loop device that shows the image,
// or the file system on it.
func (d *driver) isOurs(v *volume, path string) (bool, error) {
	var at unix.Stat_t
	if err := unix.Stat(path, &at); err != nil {
		if errors.Is(err, unix.ENOENT) {
			return false, nil
		}
		return false, fmt.Errorf("%s: %w", path, err)
	}
	if v.Type == typeDirectory {
		var data unix.Stat_t
		if err := unix.Stat(d.dataOf(v), &data); err != nil {
			return false, err
		}
		return at.Dev == data.Dev && at.Ino == data.Ino, nil
	}
	devices, err := loopsOf(d.dataOf(v))
	if err != nil {
		return false, err
	}
	for _, l := range devices {
		if l.rdev == uint64(at.Rdev) && at.Mode&unix.S_IFMT == unix.S_IFBLK || l.rdev == uint64(at.Dev) {
			return true, nil
		}
	}
	return false, nil
}

// shownAt reports whether the volume is mounted on a path. Something else that is mounted there is an
// error: it is not ours to cover or to unmount.
func (d *driver) shownAt(v *volume, path string) (bool, error) {
	mounted, err := isMounted(path)
	if err != nil || !mounted {
		return false, err
	}
	ours, err := d.isOurs(v, path)
	if err == nil && !ours {
		err = fail(codes.Internal, "something that is not volume %s is mounted on %s", v.ID, path)
	}
	return ours, err
}

// exposures returns where the mount table shows a directory volume, any part of it, or something mounted
// inside of it.
func (d *driver) exposures(v *volume) ([]string, error) {
	list, err := mountinfo.GetMounts(nil)
	if err != nil {
		return nil, fmt.Errorf("reading the mount table: %w", err)
	}
	dir := d.store.volumes.path(v.ID)
	var base *mountinfo.Info // the mount that holds the data directory
	for _, m := range list {
		if within(dir, m.Mountpoint) && dir != m.Mountpoint && (base == nil ||
			len(m.Mountpoint) >= len(base.Mountpoint)) {
			base = m
		}
	}
	var at []string
	for _, m := range list {
		inside := within(m.Mountpoint, dir)
		if base != nil && !inside {
			root := filepath.Join(base.Root, strings.TrimPrefix(dir, base.Mountpoint))
			inside = m.Major == base.Major && m.Minor == base.Minor && within(m.Root, root)
		}
		if inside {
			at = append(at, m.Mountpoint)
		}
	}
	return at, nil
}

// within reports whether path is dir or below it.
func within(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}

// bindMount shows source on path, with the per-mount bits wanted. It picks up where a killed call stopped.
func (d *driver) bindMount(source, path string, bits uintptr, bound bool) error {
	if !bound {
		if err := unix.Mount(source, path, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("binding %s to %s: %w", source, path, err)
		}
	}
	bits &= perMount
	if bits == 0 {
		return nil
	}
	err := retryEBUSY(d.ctx,
		func() error { return unix.Mount("", path, "", unix.MS_BIND|unix.MS_REMOUNT|bits, "") })
	if err == nil {
		return nil
	}
	undone := retryEBUSY(d.ctx, func() error { return unix.Unmount(path, unix.UMOUNT_NOFOLLOW) })
	return errors.Join(fmt.Errorf("setting the mount flags of %s: %w", path, err), undone)
}

// unmountAll unmounts the volume from a path: a crash between a mount and its mark may have stacked two
// mounts. A mount that stays busy is an error.
func (d *driver) unmountAll(v *volume, path string) error {
	err := retryEBUSY(d.ctx, func() error { return d.unmountNow(v, path) })
	if errors.Is(err, unix.EBUSY) {
		return fail(codes.Unavailable, "volume %s is still in use at %s: %w", v.ID, path, err)
	}
	return err
}

// unmountNow is one try of unmountAll: it checks before each unmount whether the path still shows the volume.
func (d *driver) unmountNow(v *volume, path string) error {
	for {
		shown, err := d.shownAt(v, path)
		if err != nil || !shown {
			return err
		}
		if err := unix.Unmount(path, unix.UMOUNT_NOFOLLOW); err != nil {
			crash("unmount busy")
			return fmt.Errorf("unmounting %s: %w", path, err)
		}
	}
}
