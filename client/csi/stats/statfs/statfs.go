// Package statfs asks file systems how full they are, in a process of its own. The server of a network file
// system may have failed: then the question never ends, and not even SIGKILL ends the process. The process
// that asks it must not be the agent.
package statfs

import (
	"encoding/json"
	"os"

	"golang.org/x/sys/unix"

	"berth/client/csi/helpers/child"
)

// Arg makes the supervisor's program do this work.
const Arg = "statfs"

// Question names the file systems.
type Question struct{ Paths []string }

// Answer is the answer of one file system. The counts are of bytes and of inodes.
type Answer struct {
	Bytes, FreeBytes, AvailableBytes uint64
	Inodes, FreeInodes               uint64

	Error string `json:",omitempty"` // why there are no counts
}

// Main is the program. It reads a Question from the standard input, asks one file system after the other, and
// writes an Answer to the standard output for each, in the order of the paths, both in JSON. Those after a
// file system that does not answer are not asked.
func Main(args []string) int {
	var q Question
	if !child.Question(Arg, args, &q) {
		return 2
	}

	out := json.NewEncoder(os.Stdout)
	for _, path := range q.Paths {
		a, err := ask(path)
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

func ask(path string) (Answer, error) {
	var st unix.Statfs_t
	err := unix.Statfs(path, &st)
	if err != nil {
		return Answer{}, &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	// The counts are in fragments, which some file systems leave out.
	size := uint64(max(st.Frsize, 0))
	if size == 0 {
		size = uint64(max(st.Bsize, 0))
	}
	return Answer{
		Bytes:          st.Blocks * size,
		FreeBytes:      st.Bfree * size,
		AvailableBytes: st.Bavail * size,
		Inodes:         st.Files,
		FreeInodes:     st.Ffree,
	}, nil
}
