package helper

import (
	"encoding/json"
	"os"

	"golang.org/x/sys/unix"
)

// StatfsArg makes the supervisor's program do this work.
const StatfsArg = "statfs"

// StatfsQuestion names the file systems.
type StatfsQuestion struct{ Paths []string }

// StatfsAnswer is the answer of one file system. The counts are of bytes and of inodes.
type StatfsAnswer struct {
	Bytes, FreeBytes, AvailableBytes uint64
	Inodes, FreeInodes               uint64

	Error string `json:",omitempty"` // why there are no counts
}

// Statfs is the program that asks file systems how full they are. It reads a StatfsQuestion from the
// standard input, asks one file system after the other, and writes a StatfsAnswer to the standard output for
// each, in the order of the paths, both in JSON. Those after a file system that does not answer are not
// asked.
func Statfs(args []string) int {
	var q StatfsQuestion
	if !readQuestion(StatfsArg, args, &q) {
		return 2
	}

	out := json.NewEncoder(os.Stdout)
	for _, path := range q.Paths {
		a, err := askStatfs(path)
		if err != nil {
			a.Error = err.Error()
		}
		err = out.Encode(a)
		if err != nil {
			return 1 // nobody reads any more
		}
	}
	return 0
}

func askStatfs(path string) (StatfsAnswer, error) {
	var st unix.Statfs_t
	err := unix.Statfs(path, &st)
	if err != nil {
		return StatfsAnswer{}, &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	// The counts are in fragments, which some file systems leave out.
	size := uint64(max(st.Frsize, 0))
	if size == 0 {
		size = uint64(max(st.Bsize, 0))
	}
	return StatfsAnswer{
		Bytes:          st.Blocks * size,
		FreeBytes:      st.Bfree * size,
		AvailableBytes: st.Bavail * size,
		Inodes:         st.Files,
		FreeInodes:     st.Ffree,
	}, nil
}
