// Package probe asks mounts whether they answer, in a process of its own: the server of a file system may
// have failed, and then the question never ends. The process that asks it must not be the agent.
package probe

import (
	"encoding/json"
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"berth/client/csi/helpers/child"
)

// Arg makes the supervisor's program do this work.
const Arg = "mountprobe"

// MaxAtOnce bounds the mounts that one process asks at the same time, with those that do not answer.
const MaxAtOnce = 256

// Question names the mounts.
type Question struct {
	Paths []string
	// Wait is the time after which a mount counts as hung.
	Wait time.Duration
}

// Answer is the answer of one mount. One that does not answer in time has an answer with Hung first, and
// another one if it answers late. The process ends after the last.
type Answer struct {
	Path  string
	Hung  bool `json:",omitempty"`
	Errno int  `json:",omitempty"` // of the system call that failed, 0 if none did
}

// Main is the program. It reads a Question from the standard input and writes Answers to the standard output,
// both in JSON. It ends with its input, because that ends with the agent.
func Main(args []string) int {
	var q Question
	if !child.Question(Arg, args, &q) {
		return 2
	}

	out := json.NewEncoder(os.Stdout)
	var mu sync.Mutex
	All(q, func(a Answer) {
		mu.Lock()
		defer mu.Unlock()
		if out.Encode(a) != nil {
			os.Exit(1) // nobody reads any more
		}
	})
	return 0
}

// All asks each mount and returns after the last answer. Several goroutines call tell.
func All(q Question, tell func(Answer)) {
	var all sync.WaitGroup
	slots := make(chan struct{}, MaxAtOnce)
	for _, path := range q.Paths {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			one(path, q.Wait, tell)
		})
	}
	all.Wait()
}

// one asks one mount.
func one(path string, wait time.Duration, tell func(Answer)) {
	answered := make(chan Answer, 1)
	go func() { answered <- ask(path) }()

	late := time.NewTimer(wait)
	defer late.Stop()
	select {
	case a := <-answered:
		tell(a)
	case <-late.C:
		tell(Answer{Path: path, Hung: true})
		tell(<-answered)
	}
}

// ask asks the root of a mount. The kernel must not answer from memory in place of the file system: statx is
// told so, and statfs always asks.
func ask(path string) Answer {
	var stx unix.Statx_t
	const flags = unix.AT_STATX_FORCE_SYNC | unix.AT_NO_AUTOMOUNT | unix.AT_SYMLINK_NOFOLLOW
	err := unix.Statx(unix.AT_FDCWD, path, flags, unix.STATX_BASIC_STATS, &stx)
	var st unix.Statfs_t
	if err == nil {
		err = unix.Statfs(path, &st)
	}

	a := Answer{Path: path}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		a.Errno = int(errno)
	}
	return a
}
