package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"

	"golang.org/x/sys/unix"

	"berth/structs"
)

// Children reaps all children of this process. Nothing else in the process may reap, except a fork in start.
// The zero Children is ready.
type Children struct {
	mu      sync.Mutex // held during a fork, which may wait for the child itself, and during a reaping
	running map[int]*child
	over    bool // the first program has ended, or is about to with all others
}

// child is a process of start.
type child struct {
	pid int
	// It has a buffer for the one value, because reapEnded holds the lock and must not wait for a session.
	ended chan Exit // receives once
}

// start forks a child. It is a conflict after the end of the first program: the sweep of the task would miss
// the child.
func (c *Children) start(fork func() (int, error)) (*child, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return nil, structs.Conflictf("the task has ended")
	}

	pid, err := fork()
	if err != nil {
		return nil, err
	}
	if c.running == nil {
		c.running = map[int]*child{}
	}

	started := &child{pid: pid, ended: make(chan Exit, 1)}
	c.running[pid] = started
	return started, nil
}

// kill kills the process group that a child of start leads, unless the child has ended. After the end of the
// first program the owner of the task kills and reaps what is left.
func (c *Children) kill(started *child) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over && c.running[started.pid] == started { // it is not reaped, so the pid is its own
		_ = unix.Kill(-started.pid, unix.SIGKILL)
	}
}

// end tells that all children are about to be killed. No other starts any more, and only the end of the first
// program is reported.
func (c *Children) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
}

// signal signals the first program, a child with the pid. ESRCH means that it has ended.
func (c *Children) signal(first int, sig unix.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return unix.ESRCH
	}
	return unix.Kill(first, sig) // it is not reaped, so the pid is its own
}

// Reap reaps until the first program, a child with the pid, has ended, and returns how it ended. It leaves
// the children that end later to the owner of the task.
func (c *Children) Reap(first int) (Exit, error) {
	died := make(chan os.Signal, 1)
	// This precedes the first look, so that an end after a look is not missed. The kernel merges signals: one
	// of them may stand for several ends.
	signal.Notify(died, unix.SIGCHLD)
	defer signal.Stop(died)
	for {
		exit, err := c.reapEnded(first)
		if err != nil {
			return Exit{}, fmt.Errorf("waiting for process %d: %w", first, err)
		}
		if exit != nil {
			return *exit, nil
		}
		<-died
	}
}

// reapEnded reaps the children that have ended. It returns the end of the first program, nil if that runs.
func (c *Children) reapEnded(first int) (*Exit, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		var ws unix.WaitStatus
		pid, err := unix.Wait4(-1, &ws, unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return nil, err
		case pid == 0:
			return nil, nil
		// The pid is free from here on, so kill and signal must not use it any more.
		case pid == first:
			c.over = true
			return new(exitOf(ws)), nil
		}

		// A child without an entry is an orphan of the task, which the kernel gave to this process, or a
		// command that Sessions.fork has killed.
		if ended := c.running[pid]; ended != nil && !c.over {
			ended.ended <- exitOf(ws)
			delete(c.running, pid)
		}
	}
}

func exitOf(ws unix.WaitStatus) Exit {
	if ws.Signaled() {
		return Exit{Signal: int(ws.Signal())}
	}
	return Exit{Code: ws.ExitStatus()}
}
