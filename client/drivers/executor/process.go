package executor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// procRef names a process for as long as the machine is up: a pid alone may be given away again.
type procRef struct {
	PID   int
	Start uint64 // clock ticks after boot
}

// refOf names the process that has the pid now.
func refOf(pid int) (procRef, error) {
	st, err := statOf(pid)
	if err != nil {
		return procRef{}, err
	}
	return procRef{PID: pid, Start: st.start}, nil
}

// procStat is some of /proc/<pid>/stat.
type procStat struct {
	state         byte
	ppid, session int
	start         uint64 // in ticks after boot
	cpu           uint64 // ticks in user and kernel mode
	pages         uint64 // resident
}

func statOf(pid int) (procStat, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return procStat{}, err
	}
	return parseStat(string(b))
}

// parseStat skips the command, which may hold anything, by its last parenthesis.
func parseStat(text string) (s procStat, err error) {
	f := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(f) < 22 {
		return s, fmt.Errorf("process status %q is cut short", text)
	}
	s.state = f[0][0]
	var errs []error
	number := func(i int) int64 {
		n, err := strconv.ParseInt(f[i], 10, 64)
		errs = append(errs, err)
		return n
	}
	s.ppid = int(number(1))
	s.session = int(number(3))
	s.start = uint64(number(19))
	s.cpu, s.pages = uint64(number(11)+number(12)), uint64(number(21))
	return s, errors.Join(errs...)
}

// open returns a pidfd of the very process, or -1 if it is gone.
func (p procRef) open() (int, error) {
	if p.PID <= 0 {
		return -1, nil
	}
	fd, err := unix.PidfdOpen(p.PID, 0)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) { // EINVAL: ended, but its session goes on
		return -1, nil
	}
	if err != nil {
		return -1, fmt.Errorf("opening process %d: %w", p.PID, err)
	}
	if now, err := refOf(p.PID); err != nil || now != p { // gone, or another by now
		_ = unix.Close(fd)
		return -1, nil
	}
	return fd, nil
}

// kill kills the process, if it is still there, and returns when it has ended.
func (p procRef) kill(ctx context.Context) error {
	fd, err := p.open()
	if err != nil || fd < 0 {
		return err
	}
	defer unix.Close(fd)
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("killing process %d: %w", p.PID, err)
	}
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 100)
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

// reap takes an ended orphan's exit code where this process is the one that orphans are given to.
func (p procRef) reap() {
	if p.PID > 0 {
		_, _ = unix.Wait4(p.PID, nil, unix.WNOHANG, nil)
	}
}

// eachProcess calls fn for each process of the machine.
func eachProcess(fn func(pid int, s procStat)) error {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return err
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if s, err := statOf(pid); err == nil {
			fn(pid, s)
		}
	}
	return nil
}

// killSession kills the remaining processes of the session that the process led. A session's number is not
// given away while a process is in it; a process that began before the leader is not a member.
func killSession(ctx context.Context, leader procRef) error {
	for leader.PID > 0 {
		var left []procRef
		err := eachProcess(func(pid int, s procStat) {
			if s.session == leader.PID && s.start >= leader.Start && s.state != 'Z' {
				left = append(left, procRef{PID: pid, Start: s.start})
			}
		})
		if err != nil || len(left) == 0 {
			return err
		}
		for _, p := range left {
			if p.PID == leader.PID && p.Start != leader.Start {
				return nil // the pid is another's by now: the old session was empty
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

// bootID tells one boot of the machine from the next.
func bootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b)), err
}

// reapWithin bounds the wait for killed processes.
const reapWithin = 10 * time.Second
