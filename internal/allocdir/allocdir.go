// Package allocdir reads the directory of an allocation for a user: its lists, and the contents of its files.
//
// The tasks of the allocation write in the directory, also during a read, and the reader has more rights than
// they have. Therefore:
//
//   - The kernel resolves a path below the directory, in one step (openat2): no link leads out of it, also
//     not one that a task makes between a check and a read. A link inside the directory works.
//   - Nothing is read that is mounted in the directory, such as a volume: a file system whose server has
//     failed never answers.
//   - A file is found without an open, which has effects on a pipe or a device. Only a plain file or a
//     directory is then opened, as the file that was found and not by its path.
//   - The secrets of tasks are neither read nor listed, by whatever path. Their directory is shown, although
//     it is a mount.
//
// The package needs Linux 5.6.
package allocdir

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"berth/internal/files"
	"berth/structs"
	"berth/structs/nodecalls"
)

// Dir is the directory of an allocation. It is safe for concurrent use.
type Dir struct{ root *os.File }

// Open opens the directory at a path. The error is not-found if there is none. The caller closes it.
func Open(path string) (*Dir, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		return nil, structs.NotFoundf("the allocation has no directory on its node")
	case err != nil: // without the path, which is the host's
		return nil, structs.Internalf("opening the directory of the allocation: %w", err)
	}
	return &Dir{os.NewFile(uintptr(fd), path)}, nil
}

// Close closes the directory, but not the files that were opened in it.
func (d *Dir) Close() error { return d.root.Close() }

// List describes the files in the directory at a path, in the order of their names. A link is described as
// such. A mount is a directory without rights. The error is a precondition for more than
// structs.MaxFilesListed files; see File for the others.
func (d *Dir) List(path string) ([]*nodecalls.AllocFileInfo, error) {
	found, err := d.find(path)
	if err != nil {
		return nil, err
	}
	defer closeRead(found.File)

	dir, err := found.open(unix.S_IFDIR)
	if err != nil {
		return nil, err
	}
	defer closeRead(dir)

	// One more than the bound shows that there are more, whatever their number.
	names, err := dir.Readdirnames(structs.MaxFilesListed + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fileError(path, err)
	}

	if len(names) > structs.MaxFilesListed {
		return nil, structs.Preconditionf("%s has more than %d files; name one of them",
			shown(path), structs.MaxFilesListed)
	}

	slices.Sort(names)
	files := make([]*nodecalls.AllocFileInfo, 0, len(names))
	for _, name := range names {
		file, err := found.describeEntry(dir, name)
		if err != nil {
			return nil, fileError(filepath.Join(path, name), err)
		}

		if file != nil {
			files = append(files, file)
		}
	}

	return files, nil
}

// describeEntry describes a file of the found directory. It returns nil if the file is gone.
func (f foundFile) describeEntry(dir *os.File, name string) (*nodecalls.AllocFileInfo, error) {
	entry, err := openBelow(dir, name, unix.O_NOFOLLOW)
	// The secrets of a task are a mount, which the rules below do not enter.
	if errors.Is(err, unix.EXDEV) && f.first && name == secretsDir {
		entry, err = openMount(dir, name)
	}
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil, nil
	case errors.Is(err, unix.EXDEV):
		return &nodecalls.AllocFileInfo{Name: name, IsDir: true, FileMode: os.ModeDir.String()}, nil
	case err != nil:
		return nil, err
	}
	defer closeRead(entry)
	return describe(entry, name)
}

// Stat describes the file at a path. See File for the errors.
func (d *Dir) Stat(path string) (*nodecalls.AllocFileInfo, error) {
	found, err := d.find(path)
	if err != nil {
		return nil, err
	}
	defer closeRead(found.File)

	// The directory of secrets itself is listed, so it may be described, too.
	if found.secret && !found.secretRoot {
		return nil, found.denied()
	}

	name := filepath.Base(filepath.Join("/", path))
	if name == "/" {
		name = filepath.Base(d.root.Name())
	}

	file, err := describe(found.File, name)
	if err != nil {
		return nil, fileError(path, err)
	}

	return file, nil
}

// File opens the plain file at a path. The error is not-found if there is none, denied if the path leads out
// of the directory, into a mount or to secrets, and invalid if the file is not plain. The caller closes the
// file.
func (d *Dir) File(path string) (*os.File, error) {
	found, err := d.find(path)
	if err != nil {
		return nil, err
	}
	defer closeRead(found.File)
	return found.open(unix.S_IFREG)
}

// describe describes a found file.
func describe(f *os.File, name string) (*nodecalls.AllocFileInfo, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	file := &nodecalls.AllocFileInfo{
		Name:     name,
		IsDir:    info.IsDir(),
		Size:     info.Size(),
		FileMode: info.Mode().String(),
		ModTime:  info.ModTime(),
	}
	if info.Mode().IsRegular() {
		file.ContentType = contentType(f, name)
	}
	return file, nil
}

// sniffed is the number of bytes that tell the type of a content.
const sniffed = 512

// contentType returns the type of a plain file's content, "" if it cannot be read.
func contentType(f *os.File, name string) string {
	// The name is enough for most files, and opens nothing.
	known := mime.TypeByExtension(filepath.Ext(name))
	if known != "" {
		return known
	}
	content, err := files.Reopen(f, unix.O_RDONLY)
	if err != nil {
		return ""
	}
	defer closeRead(content)
	start := make([]byte, sniffed)
	n, err := io.ReadFull(content, start)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return ""
	}
	return http.DetectContentType(start[:n])
}

// foundFile is a file that was found and not opened (O_PATH).
type foundFile struct {
	*os.File
	path       string // as it was asked for
	secret     bool   // a directory of secrets, or below one
	secretRoot bool   // a directory of secrets
	first      bool   // a directory of a task
}

// denied is the error for a secret.
func (f foundFile) denied() error {
	return structs.Deniedf("%s is among the secrets of a task, which are not shown", shown(f.path))
}

// open opens the found file for reading if it has a type (unix.S_IFREG, unix.S_IFDIR) and is no secret.
func (f foundFile) open(want uint32) (*os.File, error) {
	var st unix.Stat_t
	err := unix.Fstat(int(f.Fd()), &st)
	switch is := st.Mode & unix.S_IFMT; {
	case err != nil:
		return nil, fileError(f.path, err)
	// This precedes the checks of the type, which would tell what a secret is.
	case f.secret:
		return nil, f.denied()
	case is == want:
	case want == unix.S_IFDIR:
		return nil, structs.Invalidf("%s is not a directory", shown(f.path))
	case is == unix.S_IFDIR:
		return nil, structs.Invalidf("%s is a directory; name a file", shown(f.path))
	default:
		return nil, structs.Invalidf("%s is not a plain file", shown(f.path))
	}

	opened, err := files.Reopen(f.File, unix.O_RDONLY)
	if err != nil {
		return nil, fileError(f.path, err)
	}

	return opened, nil
}

// closeRead closes a file that was only read. Its error loses no data.
func closeRead(f *os.File) { _ = f.Close() }

// find finds the file at a path. The caller closes it.
func (d *Dir) find(path string) (foundFile, error) {
	f, err := openBelow(d.root, path, 0)
	// The mount of the secrets is one of the agent's, and so the only one that is entered.
	if errors.Is(err, unix.EXDEV) && isSecret(path) {
		return d.findSecret(path)
	}
	if err != nil {
		return foundFile{}, fileError(path, err)
	}

	found := foundFile{File: f, path: path}
	// The path may have led to a secret by a link, so the file that was found decides.
	below, err := d.locate(f)
	if err != nil {
		closeRead(f)
		return foundFile{}, err
	}

	parts := strings.Split(below, "/")
	if len(parts) >= 2 && parts[1] == secretsDir {
		found.secret = true
		found.secretRoot = len(parts) == 2
	}

	found.first = below != "" && len(parts) == 1
	return found, nil
}

// isSecret reports whether a path without links names secrets.
func isSecret(path string) bool {
	parts := strings.Split(filepath.Clean("/"+path), "/")
	return len(parts) >= 3 && parts[2] == secretsDir
}

// findSecret finds a directory of secrets that is a mount, by a path of isSecret. A path below it is denied.
func (d *Dir) findSecret(path string) (foundFile, error) {
	found := foundFile{
		path:       path,
		secret:     true,
		secretRoot: true,
	}
	clean := filepath.Clean("/" + path)[1:]
	if strings.Count(clean, "/") > 1 {
		return foundFile{}, found.denied()
	}
	var err error
	found.File, err = openMount(d.root, clean)
	if err != nil {
		return foundFile{}, fileError(path, err)
	}
	return found, nil
}

// secretsDir is the directory of secrets in the directory of each task.
const secretsDir = "secrets"

// locate returns the path of a found file below the directory. The path that a user gives may have links.
func (d *Dir) locate(f *os.File) (below string, err error) {
	root, err := os.Readlink(files.ProcPath(d.root))
	if err != nil {
		return "", err
	}
	path, err := os.Readlink(files.ProcPath(f))
	if err != nil {
		return "", err
	}
	if path == root {
		return "", nil
	}
	below, inside := strings.CutPrefix(path, root+"/")
	// A task may have moved the file out of the directory since it was found.
	if !inside {
		return "", structs.NotFoundf("the file or the directory of the allocation has been moved or removed")
	}
	return below, nil
}

const (
	// inside has the rules by which the kernel resolves a path.
	inside = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV
	// triesAgain bounds the repetitions of a resolution that the kernel has given up, because something was
	// renamed meanwhile.
	triesAgain = 64
)

// openBelow finds the file at a path below a directory.
func openBelow(dir *os.File, path string, flags uint64) (*os.File, error) {
	name := strings.TrimLeft(path, "/")
	if name == "" {
		name = "."
	}
	return openPath(dir, name, &unix.OpenHow{Flags: flags, Resolve: inside})
}

// openMount finds a mount of the agent below a directory. Its path has no links.
func openMount(dir *os.File, path string) (*os.File, error) {
	return openPath(dir, path, &unix.OpenHow{
		Flags:   unix.O_DIRECTORY,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	})
}

// openPath finds a file without an open of it. The kernel gives up a resolution during which something was
// renamed.
func openPath(dir *os.File, name string, how *unix.OpenHow) (*os.File, error) {
	how.Flags |= unix.O_PATH | unix.O_CLOEXEC
	for tries := 0; ; tries++ {
		fd, err := unix.Openat2(int(dir.Fd()), name, how)
		again := errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR)
		if again && tries < triesAgain {
			continue
		}
		if err != nil {
			return nil, err
		}
		return os.NewFile(uintptr(fd), name), nil
	}
}

// shown quotes a path for an error.
func shown(path string) string {
	return strconv.Quote(structs.Cut(path, structs.MaxName))
}

// fileError gives an error of the kernel its kind.
func fileError(path string, err error) error {
	var errno unix.Errno
	if !errors.As(err, &errno) {
		return err
	}

	switch errno {
	case unix.ENOENT, unix.ENOTDIR:
		return structs.NotFoundf("the allocation has no file %s", shown(path))
	case unix.EXDEV:
		return structs.Deniedf("%s leads out of the directory of the allocation, or into a mount or secrets in it",
			shown(path))
	case unix.ELOOP:
		return structs.Deniedf("%s has links that cannot be followed", shown(path))
	case unix.EACCES, unix.EPERM:
		return structs.Deniedf("the node may not read %s: %w", shown(path), errno)
	case unix.ENAMETOOLONG, unix.EINVAL:
		return structs.Invalidf("%s is not a path: %w", shown(path), errno)
	case unix.EAGAIN, unix.EMFILE, unix.ENFILE:
		return structs.Unavailablef("the node cannot read %s now: %w; retry", shown(path), errno)
	case unix.ENOSYS:
		return structs.Preconditionf("files of allocations need Linux 5.6 or later on the node (openat2)")
	}

	return structs.Internalf("reading %s: %w", shown(path), errno)
}
