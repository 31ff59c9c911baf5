package content

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"berth/structs"
)

// KeepOwner, as a user, a group or a mode of an Owner, leaves it as it is.
const KeepOwner = -1

// maxDepth bounds the folders inside each other, each of which has an open file.
const maxDepth = 500

// batch is how many names of a folder are read at once, and how many files are between two reports.
const batch = 1000

// Owner is the wanted owner of a volume. UID and GID are for all its files, Mode (12 bits) is for the root
// directory only. Each may be KeepOwner.
type Owner struct {
	UID  int
	GID  int
	Mode int
	// Always looks at all files. Otherwise a root directory that has the wanted owner and mode stands for
	// all of them.
	Always bool
}

// OwnerResult counts the files of a volume.
type OwnerResult struct {
	Seen    int // without files of a root directory that stands for all
	Changed int
	// LeftOut are the files that were not changed, for one of the reasons of ApplyOwner: each is one of Linked,
	// Special and Mounts.
	LeftOut int
	Linked  int // files with several hard links
	Special int // files with a setuid or setgid bit
	Mounts  int // places at which another file system is mounted
	// Example is the path of one of them in the volume, and Why the reason.
	Example string
	Why     string
}

// ApplyOwner gives the volume at the path root the wanted owner. It changes only files of the volume itself:
// it follows no symbolic link and enters no other mount. It leaves out files whose change could reach beyond
// the volume, or take rights from them: those with several hard links, and those with a setuid or setgid
// bit, which the kernel clears when the owner changes.
//
// It changes the root directory last: a call that was interrupted is repeated, and finds the files that it
// has changed already. progress, which may be nil, is called from time to time. The error names the path.
// ApplyOwner ends with ctx.
func ApplyOwner(ctx context.Context, root string, w Owner, progress func(OwnerResult)) (OwnerResult, error) {
	how := unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Open(root, how, 0)
	if err != nil {
		return OwnerResult{}, &os.PathError{Op: "open", Path: root, Err: err}
	}

	dir := os.NewFile(uintptr(fd), root)
	defer func() { _ = dir.Close() }() // it was only read
	if progress == nil {
		progress = func(OwnerResult) {}
	}

	c := &change{
		ctx:      ctx,
		volume:   root,
		want:     w,
		progress: progress,
	}
	st, err := stat(fd, root)
	if err != nil {
		return c.OwnerResult, err
	}
	if !w.Always && w.fits(&st) && w.modeFits(&st) {
		return c.OwnerResult, nil
	}

	if err := c.folder(dir, 0); err != nil {
		return c.OwnerResult, err
	}
	return c.OwnerResult, c.root(fd, root, &st)
}

// fits reports whether a file has the wanted user and group.
func (w Owner) fits(st *unix.Stat_t) bool {
	return (w.UID == KeepOwner || int64(w.UID) == int64(st.Uid)) &&
		(w.GID == KeepOwner || int64(w.GID) == int64(st.Gid))
}

func (w Owner) modeFits(st *unix.Stat_t) bool {
	return w.Mode == KeepOwner || uint32(w.Mode) == st.Mode&0o7777
}

// change is one ApplyOwner.
type change struct {
	OwnerResult
	ctx      context.Context
	volume   string // the path of its root directory
	want     Owner
	progress func(OwnerResult)
}

// folder changes all below a folder, whose depth below the root directory is given.
func (c *change) folder(dir *os.File, depth int) error {
	if depth == maxDepth {
		return structs.Preconditionf("%s: more than %d folders inside each other", dir.Name(), maxDepth)
	}
	for {
		names, err := dir.Readdirnames(batch)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}

		for _, name := range names {
			err := c.ctx.Err()
			if err != nil {
				return err
			}

			err = c.entry(dir, name, depth)
			if err != nil {
				return err
			}
		}
	}
}

// entry changes one name of a folder, and first all below it. A name that is gone meanwhile is no error: a
// task of another allocation may use the volume.
func (c *change) entry(dir *os.File, name string, depth int) error {
	path := dir.Name() + "/" + name
	fd, err := openBelow(dir, name, unix.O_PATH)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil
	case errors.Is(err, unix.EXDEV):
		c.leaveOut(path, &c.Mounts, "it is a mount of another file system")
		return nil
	case err != nil:
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer func() { _ = unix.Close(fd) }() // it was only a path

	st, err := stat(fd, path)
	if err != nil {
		return err
	}

	c.count()
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		err := c.subfolder(dir, name, depth)
		if err != nil {
			return err
		}
	}

	return c.file(fd, path, &st)
}

// count counts a file, and reports from time to time.
func (c *change) count() {
	c.Seen++
	if c.Seen%batch == 0 {
		c.progress(c.OwnerResult)
	}
}

// subfolder changes all below a folder in a folder.
func (c *change) subfolder(dir *os.File, name string, depth int) error {
	path := dir.Name() + "/" + name
	fd, err := openBelow(dir, name, unix.O_RDONLY|unix.O_DIRECTORY)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}

	sub := os.NewFile(uintptr(fd), path)
	defer func() { _ = sub.Close() }() // it was only read
	return c.folder(sub, depth+1)
}

// file changes the owner of one file, unless that could reach beyond the volume or take rights from the file.
func (c *change) file(fd int, path string, st *unix.Stat_t) error {
	folder := st.Mode&unix.S_IFMT == unix.S_IFDIR
	switch {
	case c.want.fits(st):
		return nil
	case !folder && st.Nlink > 1:
		c.leaveOut(path, &c.Linked, "it has several hard links")
		return nil
	case !folder && st.Mode&(unix.S_ISUID|unix.S_ISGID) != 0:
		c.leaveOut(path, &c.Special, "it has a setuid or setgid bit")
		return nil
	}
	return c.chown(fd, path)
}

// chown changes the file that is open, so that no other one can take its place.
func (c *change) chown(fd int, path string) error {
	err := unix.Fchownat(fd, "", c.want.UID, c.want.GID, unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return &os.PathError{Op: "chown", Path: path, Err: err}
	}
	c.Changed++
	return nil
}

// root changes the root directory.
func (c *change) root(fd int, path string, st *unix.Stat_t) error {
	c.count()
	if !c.want.fits(st) {
		err := c.chown(fd, path)
		if err != nil {
			return err
		}
	}

	if c.want.modeFits(st) {
		return nil
	}
	err := unix.Fchmod(fd, uint32(c.want.Mode))
	if err != nil {
		return &os.PathError{Op: "chmod", Path: path, Err: err}
	}
	return nil
}

// maxExample bounds the example of a path, in bytes.
const maxExample = 200

func (c *change) leaveOut(path string, count *int, why string) {
	c.LeftOut++
	*count++
	// A task chooses the names of its files.
	inside := strings.TrimPrefix(path, c.volume+"/")
	c.Example = structs.Printable(structs.Cut(inside, maxExample))
	c.Why = why
}

// Warning describes the files that were left out, with their counts and one example, "" for none.
func (r OwnerResult) Warning() string {
	switch r.LeftOut {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("%s keeps its owner: %s", r.Example, r.Why)
	}

	var parts []string
	add := func(n int, what string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, what))
		}
	}
	add(r.Linked, "with several hard links")
	add(r.Special, "with a setuid or setgid bit")
	add(r.Mounts, "at which another file system is mounted")
	return fmt.Sprintf("%d files keep their owners, among them %s: %s",
		r.LeftOut, r.Example, strings.Join(parts, ", "))
}

// openBelow opens a name in a folder, or the symbolic link that it is. It fails with EXDEV if another file
// system is mounted there.
func openBelow(dir *os.File, name string, flags uint64) (int, error) {
	how := &unix.OpenHow{
		Flags:   flags | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_SYMLINKS,
	}
	for {
		fd, err := unix.Openat2(int(dir.Fd()), name, how)
		// A rename beside it can end a resolution early.
		if err == nil || !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

func stat(fd int, path string) (unix.Stat_t, error) {
	var st unix.Stat_t
	err := unix.Fstatat(fd, "", &st, unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return st, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return st, nil
}
