package access

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"berth/internal/backoff"
	"berth/internal/boottime"
	"berth/structs"
)

// GuardArg is the argument of `berth executor` that makes it the guard of a command under a lock.
const GuardArg = "lock-guard"

// parentFD is the pipe from berth to its guard. Each instant (8 bytes) in it is the end of the lock, by the
// clock of package boottime, unless it is renewed. Its end means that berth is gone: nobody else has the
// other end of the pipe.
const parentFD = 3

// GuardMain is the guard: it runs a command that holds a lock, and ends with its code. If berth is gone,
// also by SIGKILL, or if berth stands still and the lock ends, nobody renews the lock, so the command and
// all that it has started get SIGTERM, and after the grace SIGKILL. That is also the end of all that is left
// when the command has ended by itself. The guard is the reaper of what it has started, so a daemon does not
// escape. Its arguments are the grace in nanoseconds and the command. Nobody else has the lock for at least
// the grace after its end.
func GuardMain(args []string) int {
	if len(args) < 2 {
		fmt.Fprintln(os.Stderr, "the guard of a lock needs a grace and a command")
		return 2
	}
	grace, err := strconv.ParseInt(args[0], 10, 64)
	if err != nil {
		fmt.Fprintln(os.Stderr, "the guard of a lock:", err)
		return 2
	}

	// A signal to the group is for the command. A handler, in place of ignoring it, is not inherited.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT,
		syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU)
	runtime.LockOSThread() // the kernel ends the command with the thread that has started it
	g := &lockGuard{grace: time.Duration(grace)}
	err = g.prepare()
	if err != nil {
		fmt.Fprintln(os.Stderr, "the guard of a lock:", err)
		return 1
	}
	err = g.start(args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "the command:", err)
		return 127
	}

	status := g.watch()
	signal.Ignore(syscall.SIGTTOU) // a terminal may stop processes that write from a group like this
	soon, cancel := context.WithTimeout(context.Background(), killAfter)
	defer cancel()
	err = endChildren(soon, nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		_ = endChildren(context.Background(), nil) // berth keeps the lock as long as it can
	}
	if g.late {
		fmt.Fprintln(os.Stderr, "the lock was not renewed within its TTL, because berth was stopped or the "+
			"machine was suspended: the command was ended")
		return structs.KindConflict.ExitCode()
	}
	return exitAs(status)
}

// lockGuard is the state of a guard.
type lockGuard struct {
	grace time.Duration    // from SIGTERM to SIGKILL, and at most from the end of the lock
	until boottime.Instant // the end of the lock
	gone  bool             // berth, or its end of the pipe
	late  bool             // berth: the lock has ended, and berth has not ended the command
	child int
	pidfd int // of child
	timer int // a timerfd of the clock of until, which also counts a suspend of the machine
}

// prepare reads the end of the lock, and makes all that a guard needs before its command.
func (g *lockGuard) prepare() (err error) {
	unix.CloseOnExec(parentFD)
	g.read()
	if g.gone || boottime.Now() >= g.until {
		return errors.New("the lock has ended before the command began")
	}
	g.timer, err = unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC)
	if err != nil {
		return err
	}
	return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

func (g *lockGuard) start(args []string) error {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin = os.Stdin
	cmd.Stdout = os.Stdout
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	err := cmd.Start()
	if err != nil {
		return err
	}
	g.child = cmd.Process.Pid
	g.pidfd, err = unix.PidfdOpen(g.child, 0)
	if err != nil {
		_ = endChildren(context.Background(), nil)
	}
	return err
}

// read reads the newest end of the lock from the pipe, which holds no more than the buffer. berth writes each
// one at once.
func (g *lockGuard) read() {
	var b [1 << 16]byte
	n, err := unix.Read(parentFD, b[:])
	for errors.Is(err, unix.EINTR) {
		n, err = unix.Read(parentFD, b[:])
	}
	if n < 8 {
		g.gone = true
		return
	}
	g.until = boottime.Instant(binary.NativeEndian.Uint64(b[n-8 : n]))
}

// watch waits until the command has ended by itself, or is to be killed: after SIGTERM and the grace, when
// the lock ends.
func (g *lockGuard) watch() syscall.WaitStatus {
	killAt := boottime.Instant(0) // zero before SIGTERM
	for {
		g.sleep(cmp.Or(killAt, g.termAt()))
		status, ended := reap(g.child)
		now := boottime.Now()
		switch {
		case ended:
			return status
		case killAt.IsZero() && (g.gone || now >= g.termAt()):
			g.late = !g.gone
			killAt = min(now, g.until).Add(g.grace)
			_ = syscall.Kill(0, syscall.SIGTERM)
		case !killAt.IsZero() && now >= killAt:
			return syscall.WaitStatus(syscall.SIGKILL)
		}
	}
}

// termAt is the time of SIGTERM. A berth that cannot renew the lock ends the command at the end of the lock,
// and says why. So the guard is later.
func (g *lockGuard) termAt() boottime.Instant { return g.until.Add(g.grace / 4) }

// sleep waits for an instant, for the end of the command and for the pipe, and reads the pipe. So a guard
// that stood still itself sees a renewal before it sees the clock.
func (g *lockGuard) sleep(until boottime.Instant) {
	at := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(until))}
	err := unix.TimerfdSettime(g.timer, unix.TFD_TIMER_ABSTIME, &at, nil)
	if err != nil {
		g.gone = true // a guard without a clock ends the command
		return
	}
	files := []unix.PollFd{
		{Fd: int32(g.timer), Events: unix.POLLIN},
		{Fd: int32(g.pidfd), Events: unix.POLLIN},
		{Fd: parentFD, Events: unix.POLLIN},
	}
	if g.gone {
		files[2].Fd = -1 // the kernel leaves it out
	}
	_, err = unix.Poll(files, -1)
	if err == nil && files[2].Revents != 0 {
		g.read()
	}
}

// reap reaps all children that have ended, also orphans, and returns the status of one of them.
func reap(child int) (status syscall.WaitStatus, ended bool) {
	for {
		var s syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &s, syscall.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil || pid == 0:
			return status, ended
		case pid == child:
			status, ended = s, true
		}
	}
}

// endChildren kills and reaps all children of this process but some others, and so all below them: as each
// one ends, its own children come to this process, which is their reaper. A process that is in a call of the
// kernel that does not end keeps it waiting until ctx ends.
func endChildren(ctx context.Context, others []int) error {
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		left, err := childProcesses(others)
		if err == nil && len(left) == 0 {
			return nil
		}
		for _, pid := range left {
			err = cmp.Or(err, unix.Kill(pid, unix.SIGKILL)) // it is not reaped, so the number is its own
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
		}
		if !backoff.Sleep(ctx, pause) {
			return fmt.Errorf("the processes %v of the command do not end: %w", left, cmp.Or(err, ctx.Err()))
		}
	}
}

// childProcesses lists the children of this process but some others. A child that has ended is one until it
// is reaped, so that it cannot hide its own children, which come to this process.
func childProcesses(others []int) (pids []int, err error) {
	all, err := procfs.AllProcs()
	for _, p := range all {
		s, err := p.Stat()
		if err == nil && s.PPID == os.Getpid() && !slices.Contains(others, s.PID) {
			pids = append(pids, s.PID)
		}
	}
	return pids, err
}

// exitAs returns the code of a command, and 128 and its number for a signal, as a shell does.
func exitAs(status syscall.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}
