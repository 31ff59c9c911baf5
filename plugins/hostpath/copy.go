package hostpath

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// copyImage copies a sparse file: as a reflink if the file system supports it, else the parts with data.
func copyImage(ctx context.Context, from, to string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	err = copyFile(ctx, src, dst)
	if err == nil {
		err = dst.Sync()
	}
	return errors.Join(err, dst.Close())
}

// canReflink reports whether files of a directory can share blocks.
func canReflink(dir string) bool {
	a, err := os.CreateTemp(dir, ".reflink")
	if err != nil {
		return false
	}
	defer os.Remove(a.Name())
	defer a.Close()
	b, err := os.CreateTemp(dir, ".reflink")
	if err != nil {
		return false
	}
	defer os.Remove(b.Name())
	defer b.Close()
	return unix.IoctlFileClone(int(b.Fd()), int(a.Fd())) == nil
}

func copyFile(ctx context.Context, src, dst *os.File) error {
	if unix.IoctlFileClone(int(dst.Fd()), int(src.Fd())) == nil {
		return nil
	}
	info, err := src.Stat()
	if err != nil {
		return err
	}
	size := info.Size()
	if err := dst.Truncate(size); err != nil {
		return err
	}
	for at := int64(0); at < size; {
		from, to, err := nextData(src, at, size)
		if err != nil || from >= size {
			return err
		}
		if err := copyRange(ctx, src, dst, from, to); err != nil {
			return err
		}
		at = to
	}
	return nil
}

// nextData finds the next part of a file that is no hole, at or after a position.
func nextData(f *os.File, at, size int64) (from, to int64, err error) {
	from, err = unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
	if errors.Is(err, unix.ENXIO) {
		return size, size, nil // only a hole is left
	}
	if err != nil {
		return at, size, nil // the file system reports no holes here: all of it is data
	}
	to, err = unix.Seek(int(f.Fd()), from, unix.SEEK_HOLE)
	if err != nil {
		return from, size, nil
	}
	return from, min(to, size), nil
}

// copyStep is the number of bytes copied between two checks of the context.
const copyStep = 16 << 20

func copyRange(ctx context.Context, src, dst *os.File, from, to int64) error {
	for from < to {
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := src.Seek(from, io.SeekStart); err != nil {
			return err
		}
		if _, err := dst.Seek(from, io.SeekStart); err != nil {
			return err
		}
		n, err := io.CopyN(dst, src, min(copyStep, to-from))
		if errors.Is(err, io.EOF) {
			return nil // the file became shorter
		}
		if err != nil {
			return err
		}
		from += n
	}
	return nil
}

// tree copies a directory with everything in it: modes, owners, times, extended attributes, links, devices.
// Users of the source may change it meanwhile, so both sides are walked through os.Root: no link leads out of
// them.
type tree struct {
	ctx      context.Context
	src, dst *os.Root
	links    map[[2]uint64]string // files with several names: device and inode to the name copied first
}

// copyTree copies the directory from into the directory to, which exists and is empty.
func copyTree(ctx context.Context, from, to string) error {
	src, err := os.OpenRoot(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer dst.Close()
	t := &tree{ctx, src, dst, map[[2]uint64]string{}}
	return t.directory(".")
}

// directory copies the entries of a directory, then its attributes: copying would change its times.
func (t *tree) directory(name string) error {
	d, err := t.src.Open(name)
	if err != nil {
		return ignoreGone(err)
	}
	defer d.Close()
	for {
		entries, err := d.ReadDir(256)
		for _, e := range entries {
			if err := t.entry(path.Join(name, e.Name())); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	out, err := t.dst.Open(name)
	if err != nil {
		return err
	}
	defer out.Close()
	return t.attributes(d, out, name)
}

// ignoreGone drops the error of an entry that was removed during the copy.
func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (t *tree) entry(name string) error {
	if err := t.ctx.Err(); err != nil {
		return err
	}
	info, err := t.src.Lstat(name)
	if err != nil {
		return ignoreGone(err)
	}
	st := statOf(info)
	if st == nil {
		return fmt.Errorf("%s: no attributes", name)
	}
	if !info.IsDir() && st.Nlink > 1 {
		key := [2]uint64{uint64(st.Dev), st.Ino}
		if first, ok := t.links[key]; ok {
			if err := t.dst.Link(first, name); !errors.Is(err, fs.ErrNotExist) {
				return err
			} // it was removed before it was copied: this name is the first
		}
		t.links[key] = name
	}
	switch info.Mode().Type() {
	case fs.ModeDir:
		if err := t.dst.Mkdir(name, 0o700); err != nil {
			return err
		}
		return t.directory(name)
	case fs.ModeSymlink:
		return t.symlink(name, st)
	case 0:
		return t.file(name)
	case fs.ModeSocket:
		return nil // dead without its process
	}
	return t.special(name, st)
}

func (t *tree) symlink(name string, st *syscall.Stat_t) error {
	to, err := t.src.Readlink(name)
	if err != nil {
		return ignoreGone(err)
	}
	if err := t.dst.Symlink(to, name); err != nil {
		return err
	}
	return t.dst.Lchown(name, int(st.Uid), int(st.Gid))
}

func (t *tree) file(name string) error {
	src, err := t.src.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return ignoreGone(err)
	}
	defer src.Close()
	if info, err := src.Stat(); err != nil || !info.Mode().IsRegular() {
		return err // replaced by something else meanwhile
	}
	dst, err := t.dst.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	err = copyFile(t.ctx, src, dst)
	if err == nil {
		err = t.attributes(src, dst, name)
	}
	return errors.Join(err, dst.Close())
}

// special copies a device node or a named pipe.
func (t *tree) special(name string, st *syscall.Stat_t) error {
	parent, err := t.dst.Open(path.Dir(name))
	if err != nil {
		return err
	}
	defer parent.Close()
	if err := unix.Mknodat(int(parent.Fd()), path.Base(name), st.Mode, int(st.Rdev)); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return errors.Join(t.dst.Lchown(name, int(st.Uid), int(st.Gid)),
		t.dst.Chmod(name, fs.FileMode(st.Mode&0o777)))
}

// attributes copies owner, mode, extended attributes and times, in the order in which they survive each
// other.
func (t *tree) attributes(src, dst *os.File, name string) error {
	info, err := src.Stat()
	if err != nil {
		return err
	}
	st := statOf(info)
	if err := dst.Chown(int(st.Uid), int(st.Gid)); err != nil {
		return err
	}
	if err := unix.Fchmod(int(dst.Fd()), st.Mode&0o7777); err != nil {
		return err
	}
	if err := copyAttrs(src, dst); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return t.dst.Chtimes(name, info.ModTime(), info.ModTime())
}

// copyAttrs copies extended attributes; those the target's file system does not take are left out.
func copyAttrs(src, dst *os.File) error {
	buf := make([]byte, 64<<10)
	n, err := unix.Flistxattr(int(src.Fd()), buf)
	if err != nil || n == 0 {
		return nil // the file system or the file has none
	}
	value := make([]byte, 64<<10)
	names := strings.TrimSuffix(string(buf[:n]), "\x00") // each ends with NUL
	for name := range strings.SplitSeq(names, "\x00") {
		m, err := unix.Fgetxattr(int(src.Fd()), name, value)
		if err != nil {
			continue // removed meanwhile
		}
		err = unix.Fsetxattr(int(dst.Fd()), name, value[:m], 0)
		if err != nil && !errors.Is(err, unix.ENOTSUP) && !errors.Is(err, unix.EPERM) {
			return fmt.Errorf("extended attribute %s: %w", name, err)
		}
	}
	return nil
}
