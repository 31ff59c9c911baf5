package helper

import (
	"encoding/json"
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ProbeArg makes the supervisor's program do this work.
const ProbeArg = "mountprobe"

// MaxProbes bounds the mounts that one process asks at the same time, also mounts that do not answer.
const MaxProbes = 256

// ProbeQuestion names the mounts.
type ProbeQuestion struct {
	Paths []string
	// Wait is the time after which a mount counts as hung.
	Wait time.Duration
}

// ProbeAnswer is the answer of one mount. One that does not answer in time has an answer with Hung first, and
// another one if it answers late. The process ends after the last.
type ProbeAnswer struct {
	Path  string
	Hung  bool `json:",omitempty"`
	Errno int  `json:",omitempty"` // of the system call that failed, 0 if none did
}

// Probe is the program that asks mounts whether they answer. It reads a ProbeQuestion from the standard
// input and writes ProbeAnswers to the standard output, both in JSON. It ends with its input, because that
// ends with the agent.
func Probe(args []string) int {
	var q ProbeQuestion
	if !readQuestion(ProbeArg, args, &q) {
		return 2
	}

	out := json.NewEncoder(os.Stdout)
	var mu sync.Mutex
	ProbeAll(q, func(a ProbeAnswer) {
		mu.Lock()
		defer mu.Unlock()
		if out.Encode(a) != nil {
			os.Exit(1) // nobody reads any more
		}
	})
	return 0
}

// ProbeAll asks each mount and returns after the last answer. Several goroutines call tell.
func ProbeAll(q ProbeQuestion, tell func(ProbeAnswer)) {
	var all sync.WaitGroup
	slots := make(chan struct{}, MaxProbes)
	for _, path := range q.Paths {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			probeOne(path, q.Wait, tell)
		})
	}
	all.Wait()
}

// probeOne asks one mount.
func probeOne(path string, wait time.Duration, tell func(ProbeAnswer)) {
	answered := make(chan ProbeAnswer, 1)
	go func() { answered <- probeMount(path) }()

	late := time.NewTimer(wait)
	defer late.Stop()
	select {
	case a := <-answered:
		tell(a)
	case <-late.C:
		tell(ProbeAnswer{Path: path, Hung: true})
		tell(<-answered)
	}
}

// ask asks the root of a mount. The kernel must not answer from memory in place of the file system: statx is
// told so, and statfs always asks.
func probeMount(path string) ProbeAnswer {
	var stx unix.Statx_t
	const flags = unix.AT_STATX_FORCE_SYNC | unix.AT_NO_AUTOMOUNT | unix.AT_SYMLINK_NOFOLLOW
	err := unix.Statx(unix.AT_FDCWD, path, flags, unix.STATX_BASIC_STATS, &stx)
	var st unix.Statfs_t
	if err == nil {
		err = unix.Statfs(path, &st)
	}

	a := ProbeAnswer{Path: path}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		a.Errno = int(errno)
	}
	return a
}
