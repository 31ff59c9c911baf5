// Package statfs asks a file system how full it is, in a process of its own. The server of a network file
// system may have failed: then the question never ends, and not even SIGKILL ends the process. The process
// that asks it must not be the agent.
package statfs

import (
	"encoding/json"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Arg makes the supervisor's program do this work. The path of the file system follows it.
const Arg = "statfs"

// Answer is the output of the process, in JSON.
type Answer struct {
	Bytes, FreeBytes, AvailableBytes uint64
	Inodes, FreeInodes               uint64
}

// Main is the program.
func Main(args []string) int {
	if len(args) != 1 {
		fmt.Fprintln(os.Stderr, "statfs: expected the path of a file system")
		return 2
	}

	a, err := ask(args[0])
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(a)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
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
