package executor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"berth/client/cgroups"
	"berth/client/drivers/sandbox"
)

// bare is a program without a sandbox: a child of the supervisor, which also adopts and reaps the program's
// descendants.
type bare struct {
	pid   int
	pidfd int
}

func startBare(p *sandbox.Program, out *output, entry *cgroups.Entry) (process, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, err
	}
	pid, err := p.Start(out.stdout.w, out.stderr.w, entry)
	if err != nil {
		return nil, err
	}
	fd, err := unix.PidfdOpen(pid, 0) // a child that is not reaped: surely it
	if err != nil {
		_ = unix.Kill(pid, unix.SIGKILL)
		return nil, fmt.Errorf("opening process %d: %w", pid, err)
	}
	return &bare{pid: pid, pidfd: fd}, nil
}

func (b *bare) PID() int { return b.pid }

func (b *bare) Signal(sig unix.Signal) error { return unix.PidfdSendSignal(b.pidfd, sig, nil, 0) }

// Kill kills the first process; sweep, which follows its end, the others.
func (b *bare) Kill() error {
	if err := b.Signal(unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	return nil
}

func (b *bare) Wait() (sandbox.Exit, error) {
	for {
		var ws unix.WaitStatus
		pid, err := unix.Wait4(-1, &ws, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return sandbox.Exit{}, fmt.Errorf("waiting for process %d: %w", b.pid, err)
		case pid == b.pid && ws.Signaled():
			return sandbox.Exit{Signal: int(ws.Signal())}, nil
		case pid == b.pid:
			return sandbox.Exit{Code: ws.ExitStatus()}, nil
		}
	}
}

// sweep kills and reaps every descendant: as each one ends, its children become the supervisor's.
func (b *bare) sweep(ctx context.Context) error {
	for {
		self := os.Getpid()
		err := eachProcess(func(pid int, s procStat) {
			if s.ppid == self && s.state != 'Z' {
				_ = unix.Kill(pid, unix.SIGKILL) // a child that only this goroutine reaps: the pid is its own
			}
		})
		if err != nil {
			return err
		}
		if none := reapEnded(); none {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("processes of the task do not end: %w", ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// reapEnded reaps ended children and reports whether none is left.
func reapEnded() bool {
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		if errors.Is(err, unix.ECHILD) {
			return true
		}
		if pid == 0 {
			return false
		}
	}
}
