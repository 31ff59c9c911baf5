package executor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"berth/client/cgroups"
	"berth/client/drivers/sandbox"
	"berth/internal/backoff"
)

// bare is a program without a sandbox: a child of the supervisor, which also adopts and reaps the program's
// descendants.
type bare struct {
	pid   int
	pidfd int
}

func startBare(p *sandbox.Program, out *output, group *cgroups.Group) (process, error) {
	entry, err := group.Entry()
	if err != nil {
		return nil, err
	}
	defer entry.Close()
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

func (b *bare) Wait() (sandbox.Exit, error) { return sandbox.Reap(b.pid) }

// sweep kills and reaps every descendant: as each one ends, its children become the supervisor's.
func (b *bare) sweep(ctx context.Context) error {
	for {
		self := os.Getpid()
		err := eachProcess(func(s procfs.ProcStat) {
			if s.PPID == self && s.State != zombie {
				_ = unix.Kill(s.PID, unix.SIGKILL) // a child that only this goroutine reaps: the pid is its own
			}
		})
		if err != nil {
			return err
		}
		if none := reapEnded(); none {
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
