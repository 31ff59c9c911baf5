package executor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"berth/client/drivers/cgroups"
	"berth/client/drivers/sandbox"
	"berth/internal/backoff"
	"berth/internal/process"
)

// bare is a program without a sandbox: a child of the supervisor, which also adopts and reaps the program's
// descendants.
type bare struct {
	pid      int
	pidfd    int
	sessions *sandbox.Sessions // of commands beside the program
}

func startBare(p *sandbox.Program, out *output, group *cgroups.Group) (*bare, error) {
	entry, err := group.Entry()
	if err != nil {
		return nil, err
	}

	// A process that loses its parent becomes a child of the supervisor, also one that has left the session
	// of the program. So sweep finds all of them without a cgroup.
	err = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	if err != nil {
		return nil, errors.Join(err, entry.Close())
	}

	pid, err := p.Start(out.stdout.w, out.stderr.w, entry)
	if err != nil {
		return nil, errors.Join(err, entry.Close())
	}

	fd, err := unix.PidfdOpen(pid, 0) // a child that is not reaped, so the pid is its own
	if err != nil {
		_ = unix.Kill(pid, unix.SIGKILL)
		return nil, fmt.Errorf("opening process %d: %w", pid, err)
	}

	sessions := &sandbox.Sessions{
		Program:     p,
		Entry:       entry,
		Children:    &sandbox.Children{},
		Multiplexer: process.Multiplexer,
	}

	return &bare{pid, fd, sessions}, nil
}

func (b *bare) Signal(sig unix.Signal) error {
	return unix.PidfdSendSignal(b.pidfd, sig, nil, 0)
}

// Kill kills the first process. The sweep after its end kills the others.
func (b *bare) Kill() error {
	err := b.Signal(unix.SIGKILL)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

func (b *bare) Wait() (sandbox.Exit, error) {
	return b.sessions.Children.Reap(b.pid)
}

// sweep kills and reaps every descendant: as each one ends, its children become the supervisor's.
func (b *bare) sweep(ctx context.Context) error {
	for {
		self := os.Getpid()
		err := eachProcess(func(s procfs.ProcStat) {
			if s.PPID == self && s.State != zombie {
				// Only this goroutine reaps the child, so the pid is its own.
				_ = unix.Kill(s.PID, unix.SIGKILL)
			}
		})
		if err != nil {
			return err
		}

		if reapEnded() {
			return nil
		}

		if !backoff.Sleep(ctx, 5*time.Millisecond) {
			return fmt.Errorf("processes of the task do not end: %w", ctx.Err())
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
