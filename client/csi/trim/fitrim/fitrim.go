// Package fitrim makes a file system tell its storage which blocks hold no data (FITRIM), in a process of its
// own: the storage may take long, and not even SIGKILL ends a process whose storage has failed. The process
// must not be the agent.
package fitrim

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Arg makes the supervisor's program do this work. The path of the file system follows it.
const Arg = "fitrim"

// chunk is the part of a file system that one system call trims: a signal ends the process between two.
const chunk = 1 << 30

// Answer is the output of the process, in JSON.
type Answer struct {
	Bytes uint64 // that the file system gave to its storage
	// Unsupported is the reason for which it gives nothing, and would not at the next time, "" for none.
	Unsupported string
}

// Main is the program.
func Main(args []string) int {
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
func trim(path string, parent int) (a Answer, err error) {
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
	for start := uint64(0); ; start += chunk {
		if os.Getppid() != parent {
			return a, errors.New("the agent has ended")
		}
		length := uint64(chunk)
		if size <= start+chunk {
			length = math.MaxUint64 // the file system is larger than what it counts as its blocks
		}
		n, err := trimPart(fd, start, length)
		a.Bytes += n
		if err != nil {
			return a, fail("FITRIM", err)
		}
		if length != chunk {
			return a, nil
		}
	}
}

// request is the kernel's struct fstrim_range.
type request struct{ start, length, least uint64 }

// trimPart trims a part of a file system, and returns the bytes that it gave to its storage.
func trimPart(fd int, start, length uint64) (uint64, error) {
	const ioctl = 0xc0185879 // FITRIM
	r := request{start, length, 0}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), ioctl, uintptr(unsafe.Pointer(&r)))
	if errno != 0 {
		return 0, errno
	}
	return r.length, nil
}
