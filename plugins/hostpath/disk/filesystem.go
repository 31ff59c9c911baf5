package disk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// FileSystem holds the driver's commands for one type of file system.
type FileSystem struct {
	mkfs    []string // the image's path follows
	Minimum int64    // the least size, in bytes
	Usual   int64    // the size of a volume that names none, in bytes
	Options string   // mount data that is always given
}

// FileSystems are the types of file systems that the driver can make, by their names.
var FileSystems = map[string]FileSystem{
	// The file system reserves no blocks for root, because it has only the data of the volume. It writes
	// tables at their first use, so that a new thin image stays sparse.
	"ext4": {
		mkfs: []string{
			"mkfs.ext4", "-q", "-F", "-m", "0",
			"-E", "lazy_itable_init=1,lazy_journal_init=1",
		},
		Minimum: 4 << 20,
		Usual:   64 << 20,
	},
	// A clone has its source's UUID. With nouuid both can be mounted at the same time.
	"xfs": {
		mkfs:    []string{"mkfs.xfs", "-q", "-f"},
		Minimum: 300 << 20,
		Usual:   300 << 20,
		Options: "nouuid",
	},
}

// DefaultFileSystem is the type of a volume that names none.
const DefaultFileSystem = "ext4"

// runTool runs a command. okay lists the exit codes of success besides 0. The error has the end of the
// output.
func runTool(ctx context.Context, okay []int, argv ...string) error {
	path, err := FindTool(argv[0])
	if err != nil {
		return err
	}

	var out bytes.Buffer
	// The output is a part of errors, so it is in one language.
	cmd := exec.CommandContext(ctx, path, argv[1:]...)
	cmd.Stdout = &out
	cmd.Stderr = &out
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) &&
		slices.Contains(okay, exit.ExitCode()) {
		return nil
	}
	if err != nil {
		return fmt.Errorf(
			"%s: %w: %s", argv[0], err, shortOutput(out.String()))
	}

	return nil
}

// shortOutput keeps the end of a command's output, where the reason is.
func shortOutput(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 400 {
		s = "... " + s[len(s)-400:]
	}
	return s
}

// FindTool finds a command, also where a task's PATH has no sbin.
func FindTool(name string) (string, error) {
	p, err := exec.LookPath(name)
	if err == nil {
		return p, nil
	}

	dirs := []string{"/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin", "/bin"}
	for _, dir := range dirs {
		p, err := exec.LookPath(filepath.Join(dir, name))
		if err == nil {
			return p, nil
		}
	}

	return "", Preconditionf("%s is not installed on this node", name)
}

// Format makes the file system of a new image.
func Format(ctx context.Context, fsType, image string) error {
	f, ok := FileSystems[fsType]
	if !ok {
		return Invalidf("no file-system type %q (there are ext4 and xfs)", fsType)
	}
	return runTool(ctx, nil, append(slices.Clone(f.mkfs), image)...)
}

// GrowOffline grows an ext4 file system on an image that is not in use to the size of the image.
func GrowOffline(ctx context.Context, image string) error {
	// resize2fs needs a file system that was just checked. The exit code 1 means corrected errors.
	corrected := []int{1}
	err := runTool(ctx, corrected, "e2fsck", "-f", "-p", image)
	if err != nil {
		return err
	}
	return runTool(ctx, nil, "resize2fs", image)
}

// ext4ResizeFS is EXT4_IOC_RESIZE_FS: _IOW('f', 16, __u64).
const ext4ResizeFS = 0x40086610

// GrowOnline grows a mounted file system to size. ext4 needs a capability that containers often lack:
// FAILED_PRECONDITION, and the next stage grows it.
func GrowOnline(ctx context.Context, fsType, path string, size int64) error {
	if fsType == "xfs" {
		// xfs takes the size of its device, which the caller has set.
		return runTool(ctx, nil, "xfs_growfs", "-d", path)
	}

	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()

	var st unix.Statfs_t
	err = unix.Fstatfs(int(f.Fd()), &st)
	if err != nil {
		return err
	}

	// The call takes the size in blocks of the file system.
	blocks := uint64(size / st.Bsize)
	_, _, errno := unix.Syscall(
		unix.SYS_IOCTL, f.Fd(), ext4ResizeFS, uintptr(unsafe.Pointer(&blocks)))
	switch errno {
	case 0:
		return nil
	case unix.EPERM, unix.EACCES, unix.EOPNOTSUPP:
		return Preconditionf(
			"the file system cannot grow while it is mounted (%w); the next stage grows it", errno)
	}

	return fmt.Errorf("growing the file system at %s: %w", path, errno)
}

// Freezing (FIFREEZE, FITHAW: _IOWR('X', 119 and 120, int)).
const (
	fiFreeze = 0xc0045877
	fiThaw   = 0xc0045878
)

// Freeze keeps a mounted file system in a consistent state until Thaw.
func Freeze(path string) error {
	return setFrozen(path, fiFreeze)
}

// Thaw undoes Freeze. It accepts a file system that is not frozen.
func Thaw(path string) error {
	err := setFrozen(path, fiThaw)
	if errors.Is(err, unix.EINVAL) {
		return nil
	}
	return err
}

func setFrozen(path string, op uint) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	err = unix.IoctlSetInt(int(f.Fd()), op, 0)
	if err != nil {
		return fmt.Errorf("freezing or thawing %s: %w", path, err)
	}
	return nil
}

// FreeSpace returns the size of a directory's file system, and the bytes left on it for users other than
// root.
func FreeSpace(dir string) (total, free int64, err error) {
	var st unix.Statfs_t
	err = unix.Statfs(dir, &st)
	if err != nil {
		return 0, 0, err
	}
	total = int64(st.Blocks) * st.Bsize
	free = int64(st.Bavail) * st.Bsize
	return total, free, nil
}

// Sync writes all changes of a file system to its disk.
func Sync(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}
