package executor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// procRef names a process for as long as the machine is up, because the kernel may reuse a pid.
type procRef struct {
	PID   int
	Start uint64 // clock ticks after boot
}

// refOf names the process that has the pid now.
func refOf(pid int) (procRef, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return procRef{}, err
	}
	s, err := p.Stat()
	return refFrom(s), err
}

func refFrom(s procfs.ProcStat) procRef {
	return procRef{PID: s.PID, Start: s.Starttime}
}

// open returns a pidfd of the process, or -1 if it is gone.
func (p procRef) open() (int, error) {
	if p.PID <= 0 {
		return -1, nil
	}
	fd, err := unix.PidfdOpen(p.PID, 0)
	gone := errors.Is(err, unix.ESRCH)
	if gone || errors.Is(err, unix.EINVAL) { // EINVAL: ended, but its session continues
		return -1, nil
	}
	if err != nil {
		return -1, fmt.Errorf("opening process %d: %w", p.PID, err)
	}
	now, err := refOf(p.PID)
	if err != nil || now != p { // it is gone, or another process has the pid
		_ = unix.Close(fd)
		return -1, nil
	}
	return fd, nil
}

// kill kills the process if it has not ended, and returns when it has ended.
func (p procRef) kill(ctx context.Context) error {
	fd, err := p.open()
	if err != nil || fd < 0 {
		return err
	}
	defer unix.Close(fd)
	err = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("killing process %d: %w", p.PID, err)
	}
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, 100)
		if n > 0 {
			return nil
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		if ctx.Err() != nil {
			return fmt.Errorf("process %d does not end: %w", p.PID, ctx.Err())
		}
	}
}

// reap reaps the process after its end if the kernel has made it a child of this process.
func (p procRef) reap() {
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
		if s, err := p.Stat(); err == nil {
			fn(s)
		}
	}
	return err
}

// killSession kills the remaining processes of the session that the process led. The kernel does not reuse
// the number of a session that has a process. A process that began before the leader is not a member.
func killSession(ctx context.Context, leader procRef) error {
	for leader.PID > 0 {
		var left []procRef
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
			if err := p.kill(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

func killSessions(ctx context.Context, leaders []procRef) error {
	for _, leader := range leaders {
		if err := killSession(ctx, leader); err != nil {
			return err
		}
	}
	return nil
}

// bootID identifies the boot of the machine.
func bootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b)), err
}

// killTimeout bounds the wait for killed processes.
const killTimeout = 10 * time.Second
