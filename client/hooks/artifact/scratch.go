package artifact

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"berth/client/drivers/sandbox"
	"berth/client/hooks/artifact/download"
	"berth/internal/files"
	"berth/structs"
)

// nobody is the user of the process that downloads.
var nobody = sandbox.User{UID: 65534, GID: 65534}

// scratch is the directory that a download fills, beside its destination.
type scratch struct {
	root *os.Root // of place.dir
	name string
}

// scratchName is the name of a task's scratch directory.
func scratchName(task string) string {
	return fmt.Sprintf(".artifact-%x", sha256.Sum256([]byte(task)))[:26]
}

// newScratch makes an empty scratch directory. The remains of an earlier agent are removed.
func newScratch(to place, task string) (*scratch, error) {
	root, err := os.OpenRoot(to.dir)
	if err != nil {
		return nil, err
	}

	s := &scratch{root, scratchName(task)}
	err = root.RemoveAll(s.name)
	// Temporary files are in the directory, so that measure counts them.
	for _, dir := range []string{s.name, path.Join(s.name, download.TempDir)} {
		if err == nil {
			err = root.Mkdir(dir, 0o700)
		}
		if err == nil {
			// The process runs as this user.
			err = root.Chown(dir, int(nobody.UID), int(nobody.GID))
		}
	}
	if err != nil {
		err = fmt.Errorf("making the directory of the download: %w", err)
		return nil, errors.Join(err, s.remove())
	}

	return s, nil
}

func (s *scratch) path() string { return filepath.Join(s.root.Name(), s.name) }

func (s *scratch) remove() error {
	return errors.Join(s.root.RemoveAll(s.name), s.root.Close())
}

// removeScratch removes the scratch directory of a task that a killed agent has left in a directory.
func removeScratch(dir, task string) error {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	s := &scratch{root, scratchName(task)}
	return s.remove()
}

// usage is the size of a tree.
type usage struct {
	bytes   int64
	entries int // files, directories and links
	files   int // without directories
}

func (u *usage) add(v usage) {
	u.bytes += v.bytes
	u.entries += v.entries
	u.files += v.files
}

// errLarge ends a walk of a tree above its bounds.
var errLarge = errors.New("it is larger than it may be")

// measure sizes a tree of the scratch directory, also while a download fills it. It ends with errLarge above
// the bounds.
func (s *scratch) measure(dir string, most usage) (usage, error) {
	var sum usage
	// The process may put a link in the place of a directory meanwhile, which leads out of no root.
	tree, err := s.root.OpenRoot(s.name)
	if err != nil {
		return sum, err
	}
	defer tree.Close()

	err = fs.WalkDir(tree.FS(), dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // it is gone again
		}

		info, err := d.Info()
		if err != nil {
			return nil
		}

		sum.entries++
		if !info.IsDir() {
			sum.files++
		}

		if info.Mode().IsRegular() {
			sum.bytes += info.Size()
		}

		if sum.bytes > most.bytes || sum.entries > most.entries {
			return errLarge
		}

		return nil
	})

	return sum, err
}

// maxDepth bounds the directories within one another.
const maxDepth = 200

// deliver checks the files of an ended download, gives them to their owner and moves them to a path of the
// root.
func (s *scratch) deliver(to string, owner *sandbox.User) error {
	tree, err := s.root.OpenRoot(s.name)
	if err != nil {
		return err
	}
	defer tree.Close()

	err = fs.WalkDir(tree.FS(), download.Out, func(name string, d fs.DirEntry, err error) error {
		if err == nil {
			err = prepareEntry(tree, name, owner)
		}
		return err
	})
	if err != nil {
		return err
	}

	err = s.root.MkdirAll(path.Dir(to), 0o755)
	if err == nil {
		err = s.move(path.Join(s.name, download.Out), to)
	}
	if err != nil {
		return structs.Preconditionf("moving the files to the destination: %w", err)
	}

	return nil
}

// prepareEntry checks one entry, which no process changes any more, and sets its owner and mode.
func prepareEntry(tree *os.Root, name string, owner *sandbox.User) error {
	info, err := tree.Lstat(name)
	if err != nil {
		return err
	}

	if strings.Count(name, "/") > maxDepth {
		return structs.Preconditionf("it has more than %d directories within one another", maxDepth)
	}

	shown := strings.TrimPrefix(name, download.Out+"/")
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		err = checkLink(tree, name)
		if err != nil {
			return structs.Preconditionf("the symbolic link %.200q leads out of the artifact", shown)
		}
		return tree.Lchown(name, int(owner.UID), int(owner.GID))

	case info.IsDir(), info.Mode().IsRegular():
		err = tree.Lchown(name, int(owner.UID), int(owner.GID))
		if err != nil {
			return err
		}

		// Only the owner writes, and it enters its own directories.
		// Perm leaves out the bits by which a program runs as its owner.
		mode := info.Mode().Perm() &^ 0o022
		if info.IsDir() {
			mode |= 0o700
		}

		return tree.Chmod(name, mode)
	}

	return structs.Preconditionf("%.200q is neither a file nor a directory", shown)
}

// checkLink checks that a symbolic link leads to a place in the artifact, also one that does not exist.
func checkLink(tree *os.Root, name string) error {
	target, err := tree.Readlink(name)
	if err != nil {
		return err
	}
	within, ok := below(download.Out, path.Join(path.Dir(name), target))
	if !ok || path.IsAbs(target) || !filepath.IsLocal(within) {
		return errors.New("it leads out")
	}
	// Stat follows the link, and the links on its way, only in the root.
	_, err = tree.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// move moves a tree to a path, into the directory that may be there. A file takes the place of another file.
func (s *scratch) move(from, to string) error {
	there, err := s.root.Lstat(to)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}

	info, ferr := s.root.Lstat(from)
	if ferr != nil {
		return ferr
	}

	// Only two directories are merged. Anything else takes the place at once.
	if err != nil || !there.IsDir() || !info.IsDir() {
		// The root follows no link that leads out.
		err := s.root.Rename(from, to)
		if errors.Is(err, unix.EXDEV) {
			return s.copy(from, to)
		}
		return err
	}

	entries, err := fs.ReadDir(s.root.FS(), from)
	for _, e := range entries {
		if err == nil {
			err = s.move(path.Join(from, e.Name()), path.Join(to, e.Name()))
		}
	}

	return err
}

// copy is move into another file system, which the task's secrets have. The copy takes its place as a whole.
func (s *scratch) copy(from, to string) error {
	beside := path.Join(path.Dir(to), files.TemporaryName(path.Base(to)))
	err := s.root.RemoveAll(beside) // of an agent that was killed
	if err != nil {
		return err
	}

	err = fs.WalkDir(s.root.FS(), from, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return s.copyEntry(name, beside+strings.TrimPrefix(name, from), d.Type())
	})
	if err == nil {
		err = s.root.Rename(beside, to)
	}
	if err != nil {
		return errors.Join(err, s.root.RemoveAll(beside))
	}

	return nil
}

// copyEntry copies one entry of a kind that prepareEntry allows, with its owner and mode.
func (s *scratch) copyEntry(from, to string, kind fs.FileMode) error {
	info, err := s.root.Lstat(from)
	if err != nil {
		return err
	}

	switch {
	case kind&fs.ModeSymlink != 0:
		var target string
		target, err = s.root.Readlink(from)
		if err == nil {
			err = s.root.Symlink(target, to)
		}

	case kind.IsDir():
		err = s.root.Mkdir(to, 0o700)
	default:
		err = s.copyText(from, to)
	}
	if err != nil {
		return err
	}

	// prepareEntry has set the owner and the mode of the original.
	owner, ok := info.Sys().(*syscall.Stat_t)
	if ok {
		err = s.root.Lchown(to, int(owner.Uid), int(owner.Gid))
	}

	// A link has no mode of its own.
	if err == nil && kind&fs.ModeSymlink == 0 {
		err = s.root.Chmod(to, info.Mode())
	}

	return err
}

// copyText copies the bytes of a file. The caller sets the owner and the mode.
func (s *scratch) copyText(from, to string) error {
	in, err := s.root.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := s.root.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
