package helper

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// FitrimArg makes the supervisor's program do this work. The path of the file system follows it.
const FitrimArg = "fitrim"

// trimChunk is the part of a file system that one system call trims: a signal ends the process between two.
const trimChunk = 1 << 30

// FitrimAnswer is the output of the process, in JSON.
type FitrimAnswer struct {
	Bytes uint64 // that the file system gave to its storage
	// Unsupported is the reason for which it gives nothing, and would not at the next time, "" for none.
	Unsupported string
}

// Fitrim is the program that makes a file system tell its storage which blocks hold no data (FITRIM). The
// storage may take long, and not even SIGKILL ends a process whose storage has failed.
func Fitrim(args []string) int {
	if len(args) != 1 {
		fmt.Fprintln(os.Stderr, "fitrim: expected the path of a file system")
		return 2
	}

	a, err := trim(args[0], os.Getppid())
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOTTY) {
		a.Unsupported = err.Error()
		err = nil
	}
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(a)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// trim trims a file system part by part. It ends with its parent: no agent knows of it after a crash.
func trim(path string, parent int) (a FitrimAnswer, err error) {
	fail := func(op string, err error) error { return &os.PathError{Op: op, Path: path, Err: err} }
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return a, fail("open", err)
	}
	defer unix.Close(fd)
	var st unix.Statfs_t
	err = unix.Fstatfs(fd, &st)
	if err != nil {
		return a, fail("statfs", err)
	}

	size := st.Blocks * uint64(max(st.Bsize, 0))
	for start := uint64(0); ; start += trimChunk {
		if os.Getppid() != parent {
			return a, errors.New("the agent has ended")
		}
		length := uint64(trimChunk)
		if size <= start+trimChunk {
			length = math.MaxUint64 // the file system is larger than what it counts as its blocks
		}
		n, err := trimPart(fd, start, length)
		a.Bytes += n
		if err != nil {
			return a, fail("FITRIM", err)
		}
		if length != trimChunk {
			return a, nil
		}
	}
}

// request is the kernel's struct fstrim_range.
type trimRange struct{ start, length, least uint64 }

// trimPart trims a part of a file system, and returns the bytes that it gave to its storage.
func trimPart(fd int, start, length uint64) (uint64, error) {
	const ioctl = 0xc0185879 // FITRIM
	r := trimRange{start, length, 0}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), ioctl, uintptr(unsafe.Pointer(&r)))
	if errno != 0 {
		return 0, errno
	}
	return r.length, nil
}
