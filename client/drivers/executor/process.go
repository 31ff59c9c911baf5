package executor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"berth/internal/backoff"
	"berth/internal/process"
)

func refFrom(s procfs.ProcStat) process.Ref {
	return process.Ref{PID: s.PID, Start: s.Starttime}
}

// reap reaps a process after its end if the kernel has made it a child of this process.
func reap(p process.Ref) {
	if p.PID > 0 {
		_, _ = unix.Wait4(p.PID, nil, unix.WNOHANG, nil)
	}
}

// zombie is the state of a process that has ended and is not reaped.
const zombie = "Z"

// eachProcess calls fn for each process of the machine.
func eachProcess(fn func(procfs.ProcStat)) error {
	all, err := procfs.AllProcs()
	for _, p := range all {
		// A process that has ended since the list was made is left out.
		if s, err := p.Stat(); err == nil {
			fn(s)
		}
	}
	return err
}

// killSession kills the remaining processes of the session that the process led. The kernel does not reuse
// the number of a session that has a process. A process that began before the leader is not a member.
func killSession(ctx context.Context, leader process.Ref) error {
	for leader.PID > 0 {
		var left []process.Ref
		err := eachProcess(func(s procfs.ProcStat) {
			member := s.Session == leader.PID && s.Starttime >= leader.Start
			if member && s.State != zombie {
				left = append(left, refFrom(s))
			}
		})

		if err != nil || len(left) == 0 {
			return err
		}

		for _, p := range left {
			if p.PID == leader.PID && p.Start != leader.Start {
				return nil // another process has the pid, so the session is over
			}
		}

		for _, p := range left {
			if err := p.Kill(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

func killSessions(ctx context.Context, leaders []process.Ref) error {
	for _, leader := range leaders {
		if err := killSession(ctx, leader); err != nil {
			return err
		}
	}
	return nil
}

// startedBy stops a supervisor whose record has no task yet. It returns the process that the supervisor has
// started, the zero value if there is none. A stopped supervisor starts nothing any more.
func startedBy(ctx context.Context, supervisor process.Ref) (task process.Ref, err error) {
	fd, err := supervisor.Open()
	if err != nil || fd < 0 {
		return task, err
	}
	defer unix.Close(fd)

	err = unix.PidfdSendSignal(fd, unix.SIGSTOP, nil, 0)
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return task, fmt.Errorf("stopping process %d: %w", supervisor.PID, err)
	}

	for {
		stopped := inStates(supervisor.PID, stoppedStates)
		forked := stopped || inStates(supervisor.PID, stoppedStates+"D")
		if forked {
			task, err = childOf(supervisor.PID)
		}

		// A thread that has forked waits in state D until its child executes the program, which may hang. It
		// forks once before the task is recorded.
		if err != nil || stopped || forked && task.PID != 0 {
			return task, err
		}

		if !backoff.Sleep(ctx, time.Millisecond) {
			return task, fmt.Errorf("process %d does not stop: %w", supervisor.PID, ctx.Err())
		}
	}
}

// childOf returns the last child of a process, the zero value if it has none.
func childOf(pid int) (child process.Ref, err error) {
	err = eachProcess(func(s procfs.ProcStat) {
		if s.PPID == pid && s.State != zombie {
			child = refFrom(s)
		}
	})
	return child, err
}

// stoppedStates are the states of threads that do not run: stopped or ended.
const stoppedStates = "TtZX"

// inStates reports whether all threads of a process are in the states. A thread that starts a program stops
// after that.
func inStates(pid int, states string) bool {
	threads, err := procfs.AllThreads(pid)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	return !slices.ContainsFunc(threads, func(p procfs.Proc) bool {
		s, err := p.Stat()
		return err == nil && !strings.Contains(states, s.State)
	})
}

// killTimeout bounds the wait for killed processes.
const killTimeout = 10 * time.Second
