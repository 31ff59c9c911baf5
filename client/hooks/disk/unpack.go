package disk

import (
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"berth/structs/nodecalls"
)

// unpacker writes data from another node into a directory of its own. It does not trust that node: a path
// stays in the directories that move, and passes through no link.
type unpacker struct {
	dirs []string
	root *os.File
	size int64                     // bytes of the files so far
	last *nodecalls.AllocDataEntry // after which the next request goes on
	made int                       // files, directories and links
}

// newUnpacker begins with an empty directory in an allocation's.
func newUnpacker(dir string, dirs []string) (*unpacker, error) {
	own := filepath.Join(dir, ownDir)
	part := filepath.Join(own, partName)
	err := makeOwnDir(own)
	if err == nil {
		// An earlier try may have left it.
		err = os.RemoveAll(part)
	}
	if err == nil {
		err = os.Mkdir(part, 0o700)
	}
	if err != nil {
		return nil, err
	}

	root, err := openDir(part)
	if err != nil {
		return nil, err
	}

	u := &unpacker{dirs: dirs, root: root}
	// The other node sends the directories that move, and not their parents.
	for _, d := range dirs {
		err := unix.Mkdirat(int(root.Fd()), path.Dir(d), 0o700)
		if err != nil && !errors.Is(err, unix.EEXIST) {
			u.close()
			return nil, err
		}
	}

	return u, nil
}

func (u *unpacker) close() { closeDir(u.root) }

// commit makes the data durable and gives it its final name.
func (u *unpacker) commit() error {
	// One call syncs all files, which may be very many.
	err := unix.Syncfs(int(u.root.Fd()))
	if err != nil {
		return err
	}
	own, _ := filepath.Split(u.root.Name())
	// The name says that the data is whole, so it follows the sync.
	return os.Rename(u.root.Name(), filepath.Join(own, wholeName))
}

// remove frees the space of data that is not whole.
func (u *unpacker) remove() error { return os.RemoveAll(u.root.Name()) }

// free returns the bytes that are free for the data.
func (u *unpacker) free() (int64, error) {
	var st unix.Statfs_t
	err := unix.Fstatfs(int(u.root.Fd()), &st)
	// A file system may report so many blocks that their bytes do not fit the integer.
	return int64(min(st.Bavail, maxBytes/uint64(st.Bsize))) * st.Bsize, err
}

// add writes an entry. It leaves out an entry of another directory. The error is a waitError if the entry
// makes no sense or has no space.
func (u *unpacker) add(e *nodecalls.AllocDataEntry) error {
	if !u.continues(e) {
		return waits("the data has the faulty part %d of %.100q", e.Offset, e.Path)
	}

	u.last = e
	// Further parts are of the same file.
	if e.Offset == 0 {
		u.made++
	}

	u.size += int64(len(e.Data))
	switch {
	case !filepath.IsLocal(e.Path) || len(e.Path) > nodecalls.MaxDataPath || len(e.Link) > nodecalls.MaxDataPath,
		e.More && len(e.Data) == 0:
		return waits("the data has the faulty entry %.100q", e.Path)
	case !slices.ContainsFunc(u.dirs, func(d string) bool {
		return e.Path == d || strings.HasPrefix(e.Path, d+"/")
	}):
		// The other group may have tasks that this one does not have.
		return nil
	}

	err := u.write(e)
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return waits("there is no more space on this node after %s", u.moved())
	}

	return err
}

// write makes the file of an entry. An earlier entry has made its directory.
func (u *unpacker) write(e *nodecalls.AllocDataEntry) error {
	dir, name := path.Split(e.Path)
	parent, err := openBelow(u.root, dir, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer closeDir(parent)

	switch e.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return addDir(parent, name, e)
	case unix.S_IFREG:
		return addFile(parent, name, e)
	case unix.S_IFLNK:
		// The target is not checked: the agent follows no link, and a task follows it with its own rights.
		return errors.Join(
			unix.Symlinkat(e.Link, int(parent.Fd()), name),
			mayFail(unix.Fchownat(int(parent.Fd()), name, int(e.UID), int(e.GID), unix.AT_SYMLINK_NOFOLLOW)))
	}

	return waits("%.100q is neither a file nor a directory nor a link", e.Path)
}

// continues reports whether an entry begins a file, or begins where the last part of its file ends: a hole
// would take no space here, but its size on the next node.
func (u *unpacker) continues(e *nodecalls.AllocDataEntry) bool {
	if e.Offset == 0 {
		return true
	}
	return u.last != nil && u.last.More &&
		u.last.Path == e.Path && u.last.Offset+int64(len(u.last.Data)) == e.Offset
}

func addDir(parent *os.File, name string, e *nodecalls.AllocDataEntry) error {
	err := unix.Mkdirat(int(parent.Fd()), name, 0o700)
	if err != nil {
		return err
	}
	f, err := openBelow(parent, name, unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer closeDir(f)
	return setRights(f, e) // later entries change its time
}

// addFile writes the bytes of an entry, and the rights of the file after its last byte.
func addFile(parent *os.File, name string, e *nodecalls.AllocDataEntry) error {
	flags := unix.O_WRONLY
	if e.Offset == 0 {
		// A second entry for the path must not change a complete file.
		flags |= unix.O_CREAT | unix.O_EXCL
	}

	f, err := openBelow(parent, name, flags)
	if err != nil {
		return err
	}

	_, err = f.WriteAt([]byte(e.Data), e.Offset)
	if err == nil && !e.More {
		err = setRights(f, e)
	}

	err = errors.Join(err, f.Close())
	// The time comes last, because each write changes it.
	if err == nil && !e.More {
		at := unix.NsecToTimespec(e.ModTime)
		err = unix.UtimesNanoAt(int(parent.Fd()), name, []unix.Timespec{at, at}, unix.AT_SYMLINK_NOFOLLOW)
	}

	return err
}

// setRights sets the owner, by number, before the mode, whose bits for other users an owner's change clears.
// A program does not keep the bits by which it runs with the rights of its owner: the other node may be in
// other hands. A directory keeps the bit by which its files get its group.
func setRights(f *os.File, e *nodecalls.AllocDataEntry) error {
	fd := int(f.Fd())
	rights := e.Mode & 0o7777
	if e.Mode&unix.S_IFMT == unix.S_IFREG {
		rights &^= unix.S_ISUID | unix.S_ISGID
	}
	err := mayFail(unix.Fchown(fd, int(e.UID), int(e.GID)))
	if err == nil {
		err = unix.Fchmod(fd, rights)
	}
	return err
}

// mayFail drops the error of a change of an owner if the agent is not root.
func mayFail(err error) error {
	if os.Geteuid() != 0 && errors.Is(err, unix.EPERM) {
		return nil
	}
	return err
}
