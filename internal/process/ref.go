package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// Ref names a process for as long as the machine is up. The kernel reuses pids, so a process is named by its
// pid and its start time, and no process is signalled without a check of both under a pidfd.
type Ref struct {
	PID   int
	Start uint64 // clock ticks after boot
}

// RefOf names the process that has the pid now. The error is fs.ErrNotExist if there is none, or ESRCH if it
// ends during the look.
func RefOf(pid int) (Ref, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return Ref{}, err
	}
	s, err := p.Stat()
	return Ref{PID: pid, Start: s.Starttime}, err
}

// SelfRef names this process by its pid on the host, also if it is in a pid namespace. /proc is the host's.
func SelfRef() (Ref, error) {
	// The kernel answers by the namespace of the mount, so the host's /proc has the pid on the host.
	name, err := os.Readlink("/proc/self")
	if err != nil {
		return Ref{}, err
	}
	pid, err := strconv.Atoi(name)
	if err != nil {
		return Ref{}, fmt.Errorf("reading /proc/self: %w", err)
	}
	return RefOf(pid)
}

// Open returns a pidfd of the very process, or -1 if it is gone. With an error it is not known.
func (r Ref) Open() (int, error) {
	if r.PID <= 0 {
		return -1, nil
	}

	fd, err := unix.PidfdOpen(r.PID, 0)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) { // EINVAL: ended, but its session continues
		return -1, nil
	}
	if err != nil {
		return -1, fmt.Errorf("opening process %d: %w", r.PID, err)
	}

	// The check follows the open: a pid that is still the process's now was so when the pidfd was opened.
	now, err := RefOf(r.PID)
	if err == nil && now == r {
		return fd, nil
	}

	_ = unix.Close(fd)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ESRCH) {
		return -1, fmt.Errorf("reading the start time of process %d: %w", r.PID, err)
	}

	return -1, nil // gone, or another by now
}

// Signal sends a signal to the process, if it is still there.
func (r Ref) Signal(s unix.Signal) error {
	fd, err := r.Open()
	if err != nil || fd < 0 {
		return err
	}
	defer unix.Close(fd)

	err = unix.PidfdSendSignal(fd, s, nil, 0)
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("sending %s to process %d: %w", unix.SignalName(s), r.PID, err)
	}
	return nil
}

// Kill kills the process, if it is still there, and returns when it has ended.
func (r Ref) Kill(ctx context.Context) error {
	fd, err := r.Open()
	if err != nil || fd < 0 {
		return err
	}
	defer unix.Close(fd)

	err = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("killing process %d: %w", r.PID, err)
	}
	return r.wait(ctx, fd)
}

// Wait returns when the process has ended.
func (r Ref) Wait(ctx context.Context) error {
	fd, err := r.Open()
	if err != nil || fd < 0 {
		return err
	}
	defer unix.Close(fd)

	return r.wait(ctx, fd)
}

// wait polls the pidfd, which is readable once the process has ended. It also works for processes that are no
// children of this one.
func (r Ref) wait(ctx context.Context, fd int) error {
	// poll does not see the end of ctx, so it is asked in between.
	const pollMillis = 100
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, pollMillis)
		if n > 0 {
			return nil
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("waiting for process %d: %w", r.PID, err)
		}
		if ctx.Err() != nil {
			return fmt.Errorf("process %d does not end: %w", r.PID, ctx.Err())
		}
	}
}

// BootID identifies the boot of the machine.
func BootID() (string, error) {
	// The kernel draws it anew at each boot.
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b)), err
}

// BootTime is when the machine booted, by the present setting of its clock, in whole seconds.
func BootTime() (time.Time, error) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return time.Time{}, err
	}
	s, err := fs.Stat()
	return time.Unix(int64(s.BootTime), 0), err
}
