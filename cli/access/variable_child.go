package access

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"berth/cli/command"
	"berth/structs"
)

// guardProgram is the command of a guard.
var guardProgram = []string{"/proc/self/exe", "executor", GuardArg}

// openGuard makes the pipe to a guard, with the first end of the lock in it, and returns the end of the
// guard. The kernel closes the other end whatever ends this process.
func (h *lockHolder) openGuard() (guards *os.File, err error) {
	guards, h.guard, err = os.Pipe()
	if err != nil {
		return nil, structs.Internalf("making a pipe for the guard of the command: %w", err)
	}
	h.tellGuard()
	return guards, nil
}

// tellGuard tells the guard how long the lock lasts. A guard that does not hear it ends the command at the
// former end, so an error is safe. The timeout is for a guard that does not read.
func (h *lockHolder) tellGuard() {
	_ = h.guard.SetWriteDeadline(time.Now().Add(time.Second))
	_ = binary.Write(h.guard, binary.NativeEndian, h.until)
}

// runChild runs a command until it ends by itself, or until ctx ends. A guard runs it, in a process group of
// its own, and ends all of it if this process is killed or stands still: see GuardMain. If the guard is
// killed or stopped, this process ends all of it: what has lost its parents comes to the guard, and without
// a guard to this process.
func (h *lockHolder) runChild(ctx context.Context, guards *os.File, args []string) error {
	if h.c.Bool("shell") {
		args = []string{cmp.Or(os.Getenv("SHELL"), "/bin/sh"), "-c", strings.Join(args, " ")}
	}
	_, err := exec.LookPath(args[0])
	if err != nil {
		return structs.Preconditionf("the command: %w", err)
	}

	err = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	if err != nil {
		return structs.Internalf("becoming the reaper of the command: %w", err)
	}
	// A program that has become this one by exec may have had children.
	others, err := childProcesses(nil)
	if err != nil {
		return structs.Internalf("listing the processes: %w", err)
	}

	grace := min(killAfter, h.lock.LockDelay/2)
	cmd := h.guardCommand(ctx, grace, args)
	cmd.ExtraFiles = []*os.File{guards} // parentFD
	err = cmd.Start()
	if err != nil {
		return structs.Preconditionf("the guard of the command: %w", err)
	}

	if !waitGuard(cmd.Process.Pid) {
		// The guard is among the others: it is reaped below.
		sweep, cancel := context.WithTimeout(context.Background(), grace)
		h.left = endChildren(sweep, append(others, cmd.Process.Pid))
		cancel()
	}

	err = cmd.Wait()
	ended, ran := errors.AsType[*exec.ExitError](err)
	switch {
	case ran && ended.Exited():
		return command.ExitError(ended.ExitCode())
	case ran:
		return structs.Preconditionf("the guard of the command has ended (%w), so the command and all that "+
			"it has started were killed; %s", err, h.nextStep())
	case err != nil:
		return structs.Preconditionf("the command: %w", err)
	}

	return nil
}

// guardCommand is the guard of a command.
func (h *lockHolder) guardCommand(ctx context.Context, grace time.Duration, args []string) *exec.Cmd {
	line := append(slices.Clone(guardProgram), strconv.FormatInt(int64(grace), 10))
	line = append(line, args...)
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Stdin = h.c.In
	cmd.Stdout = h.c.Out
	cmd.Stderr = h.c.Err
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = grace + grace/2 // for a guard that does not end
	cmd.Cancel = h.guard.Close      // as if this process was killed
	return cmd
}

// waitGuard waits until a guard has ended, and reports whether it has ended by itself. It kills a guard that
// was stopped, because that guard would let the command outlive the lock. It does not reap the guard.
func waitGuard(pid int) (exited bool) {
	const codeExited, codeStopped = 1, 5 // CLD_EXITED, CLD_STOPPED
	options := unix.WEXITED | unix.WSTOPPED | unix.WNOWAIT
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, pid, &info, options, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err == nil && info.Code == codeStopped:
			_ = unix.Kill(pid, unix.SIGKILL)
			options &^= unix.WSTOPPED
		default:
			return err == nil && info.Code == codeExited
		}
	}
}
