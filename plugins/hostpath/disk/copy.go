package disk

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

// CopyImage copies a sparse file: as a reflink if the file system supports it, else the parts with data.
func CopyImage(ctx context.Context, from, to string) error {
	// The volume may be in use: the caller has frozen its file system, or a reflink takes one instant.
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
		// The caller records the copy as made, so its data has to be on the disk.
		err = dst.Sync()
	}

	return errors.Join(err, dst.Close())
}

// ReflinkPrefix begins the names of the files with which CanReflink tests a file system. A killed process
// leaves them.
const ReflinkPrefix = ".reflink"

// CanReflink reports whether files of a directory can share blocks. It tries it with two files, because the
// kernel does not tell it of a directory.
func CanReflink(dir string) bool {
	a, err := os.CreateTemp(dir, ReflinkPrefix)
	if err != nil {
		return false
	}
	defer os.Remove(a.Name())
	defer a.Close()
	b, err := os.CreateTemp(dir, ReflinkPrefix)
	if err != nil {
		return false
	}
	defer os.Remove(b.Name())
	defer b.Close()
	return reflink(a, b) == nil
}

// reflink makes dst share the blocks of src.
func reflink(src, dst *os.File) error {
	return unix.IoctlFileClone(int(dst.Fd()), int(src.Fd()))
}

func copyFile(ctx context.Context, src, dst *os.File) error {
	// After any error the data is copied: file systems report in several ways that they share no blocks.
	if reflink(src, dst) == nil {
		return nil
	}

	info, err := src.Stat()
	if err != nil {
		return err
	}

	size := info.Size()
	// Only the parts with data are written, so the holes of the source are holes of the copy.
	err = dst.Truncate(size)
	if err != nil {
		return err
	}

	for at := int64(0); at < size; {
		part, err := nextData(src, at, size)
		if err != nil || part.from >= size {
			return err
		}

		err = copyExtent(ctx, src, dst, part)
		if err != nil {
			return err
		}

		at = part.to
	}

	return nil
}

// extent is a part of a file.
type extent struct{ from, to int64 }

// nextData returns the next extent of a file with data, at or after a position.
func nextData(f *os.File, at, size int64) (extent, error) {
	fd := int(f.Fd())
	from, err := unix.Seek(fd, at, unix.SEEK_DATA)
	if errors.Is(err, unix.ENXIO) {
		return extent{size, size}, nil // only a hole is left
	}
	if err != nil {
		return extent{at, size}, nil // the file system reports no holes here: all of it is data
	}
	to, err := unix.Seek(fd, from, unix.SEEK_HOLE)
	if err != nil {
		return extent{from, size}, nil
	}
	return extent{from, min(to, size)}, nil
}

// copyStep is the number of bytes copied between two checks of the context.
const copyStep = 16 << 20

func copyExtent(ctx context.Context, src, dst *os.File, e extent) error {
	for e.from < e.to {
		if err := ctx.Err(); err != nil {
			return err
		}

		_, err := src.Seek(e.from, io.SeekStart)
		if err == nil {
			_, err = dst.Seek(e.from, io.SeekStart)
		}
		if err != nil {
			return err
		}

		// Between two files the kernel copies: the bytes do not pass through this process.
		n, err := io.CopyN(dst, src, min(copyStep, e.to-e.from))
		if errors.Is(err, io.EOF) {
			return nil // the file became shorter
		}
		if err != nil {
			return err
		}

		e.from += n
	}
	return nil
}

// treeCopy copies a directory with all its entries: modes, owners, times, extended attributes, links,
// devices. Users of the source may change it meanwhile, so both sides are an os.Root, which no link leads out
// of.
type treeCopy struct {
	ctx      context.Context
	src, dst *os.Root
	links    map[inode]string // files with several names: the name that was copied first
}

type inode struct{ dev, ino uint64 }

// CopyTree copies the directory from into the directory to, which exists and is empty.
func CopyTree(ctx context.Context, from, to string) error {
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
	t := &treeCopy{ctx, src, dst, map[inode]string{}}
	return t.copyDirectory(".")
}

// copyDirectory copies the entries of a directory, and then its attributes, because copying changes its
// times.
func (t *treeCopy) copyDirectory(name string) error {
	d, err := t.src.Open(name)
	if err != nil {
		return ignoreGone(err)
	}
	defer d.Close()

	for {
		// A directory may have millions of entries, so it is read in parts.
		entries, err := d.ReadDir(256)
		for _, e := range entries {
			if err := t.copyEntry(path.Join(name, e.Name())); err != nil {
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

	return t.copyAttributes(d, out, name)
}

// ignoreGone drops the error of an entry that was removed during the copy.
func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (t *treeCopy) copyEntry(name string) error {
	if err := t.ctx.Err(); err != nil {
		return err
	}

	info, err := t.src.Lstat(name)
	if err != nil {
		return ignoreGone(err)
	}

	st := info.Sys().(*syscall.Stat_t)
	// A directory also has several names, but no other one leads to it.
	if !info.IsDir() && st.Nlink > 1 {
		key := inode{uint64(st.Dev), st.Ino}
		if first, ok := t.links[key]; ok {
			err := t.dst.Link(first, name)
			if !errors.Is(err, fs.ErrNotExist) {
				return err
			} // the first name was removed before its copy
		}

		t.links[key] = name
	}

	switch info.Mode().Type() {
	case fs.ModeDir:
		// Until it has its attributes only the driver enters it: the copy may have secrets.
		err := t.dst.Mkdir(name, 0o700)
		if err != nil {
			return err
		}
		return t.copyDirectory(name)

	case fs.ModeSymlink:
		return t.copySymlink(name, st)
	case 0:
		return t.copyRegular(name)
	case fs.ModeSocket:
		return nil // a socket is of no use without its process
	}

	return t.copySpecial(name, st)
}

// copySymlink keeps the text of a link, also of one that leads out of the volume.
func (t *treeCopy) copySymlink(name string, st *syscall.Stat_t) error {
	to, err := t.src.Readlink(name)
	if err != nil {
		return ignoreGone(err)
	}
	err = t.dst.Symlink(to, name)
	if err != nil {
		return err
	}
	return t.dst.Lchown(name, int(st.Uid), int(st.Gid))
}

func (t *treeCopy) copyRegular(name string) error {
	// A user may have put a pipe there: the driver must not wait for its writer.
	src, err := t.src.OpenFile(
		name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return ignoreGone(err)
	}
	defer src.Close()

	info, err := src.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return err // a user has replaced the file
	}

	// Until it has its attributes only the driver opens it.
	dst, err := t.dst.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}

	err = copyFile(t.ctx, src, dst)
	if err == nil {
		err = t.copyAttributes(src, dst, name)
	}

	return errors.Join(err, dst.Close())
}

// copySpecial copies a device node or a named pipe.
func (t *treeCopy) copySpecial(name string, st *syscall.Stat_t) error {
	parent, err := t.dst.Open(path.Dir(name))
	if err != nil {
		return err
	}
	defer parent.Close()
	// os.Root makes no nodes. The parent is open and the name is one element, so no link is followed.
	err = unix.Mknodat(int(parent.Fd()), path.Base(name), st.Mode, int(st.Rdev))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return errors.Join(
		t.dst.Lchown(name, int(st.Uid), int(st.Gid)),
		// The umask has changed the mode of the node.
		t.dst.Chmod(name, fs.FileMode(st.Mode&0o777)))
}

// copyAttributes copies owner, mode, extended attributes and times. In this order none changes an earlier
// one.
func (t *treeCopy) copyAttributes(src, dst *os.File, name string) error {
	info, err := src.Stat()
	if err != nil {
		return err
	}

	st := info.Sys().(*syscall.Stat_t)
	// A change of the owner clears the bit set-user-ID, so the mode follows it.
	err = dst.Chown(int(st.Uid), int(st.Gid))
	if err == nil {
		err = unix.Fchmod(int(dst.Fd()), st.Mode&0o7777)
	}
	if err != nil {
		return err
	}

	err = copyXattrs(src, dst)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}

	// A later write would set the time again, so this is the last step.
	modified := info.ModTime()
	return t.dst.Chtimes(name, modified, modified)
}

// copyXattrs copies extended attributes, unless the target's file system does not support them.
func copyXattrs(src, dst *os.File) error {
	// The kernel has a limit of 64 KiB for the list, and for each value.
	buf := make([]byte, 64<<10)
	n, err := unix.Flistxattr(int(src.Fd()), buf)
	if err != nil || n == 0 {
		return nil // the file system or the file has none
	}

	value := make([]byte, 64<<10)
	list := string(buf[:n])
	names := strings.TrimSuffix(list, "\x00") // each name ends with NUL
	for name := range strings.SplitSeq(names, "\x00") {
		m, err := unix.Fgetxattr(int(src.Fd()), name, value)
		if err != nil {
			continue // removed meanwhile
		}

		err = unix.Fsetxattr(int(dst.Fd()), name, value[:m], 0)
		// Some names need a right that the driver may lack in a container.
		unsupported := errors.Is(err, unix.ENOTSUP) ||
			errors.Is(err, unix.EPERM)
		if err != nil && !unsupported {
			return fmt.Errorf("extended attribute %s: %w", name, err)
		}
	}

	return nil
}
