package vars

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// GuardArg is the argument of `berth executor` that makes it the guard of a command under a lock.
const GuardArg = "lock-guard"

// parentFD is the file of a guard whose end means that berth is gone: nobody else has the other end of the
// pipe.
const parentFD = 3

// GuardMain is the guard: it runs a command that holds a lock, and ends with its code. If berth is gone, also
// by SIGKILL, nobody renews the lock, so the command and all that it has started get SIGTERM, and after the
// grace SIGKILL. That is also the end of all that is left when the command has ended by itself. The guard is
// the reaper of what it has started, so a daemon does not escape. Its arguments are the grace in nanoseconds
// and the command.
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
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	runtime.LockOSThread() // the kernel ends the command with the thread that has started it
	err = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	if err != nil {
		fmt.Fprintln(os.Stderr, "the guard of a lock:", err)
		return 1
	}

	unix.CloseOnExec(parentFD)
	cmd := exec.Command(args[1], args[2:]...)
	cmd.Stdin = os.Stdin
	cmd.Stdout = os.Stdout
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	err = cmd.Start()
	if err != nil {
		fmt.Fprintln(os.Stderr, "the command:", err)
		return 127
	}

	go func() {
		_, _ = os.NewFile(parentFD, "parent").Read(make([]byte, 1))
		_ = syscall.Kill(0, syscall.SIGTERM)
		time.Sleep(time.Duration(grace))
		endDescendants()
		os.Exit(1)
	}()

	status := reap(cmd.Process.Pid)
	endDescendants()
	return exitAs(status)
}

// reap waits for a child, and for all orphans that come to this process meanwhile.
func reap(child int) (status syscall.WaitStatus) {
	for {
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil || pid == child:
			return status
		}
	}
}

// endDescendants kills all processes below this one until there are none: each round may find children that a
// process has made before it died.
func endDescendants() {
	for range mostRounds {
		pids := descendants(os.Getpid())
		if len(pids) == 0 {
			return
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		for {
			pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
			if err != nil || pid <= 0 {
				break
			}
		}
		time.Sleep(time.Millisecond)
	}
}

// mostRounds bounds endDescendants: a process in an uninterruptible call of the kernel does not end.
const mostRounds = 1000

// descendants lists the processes below one, without those that have ended.
func descendants(of int) (pids []int) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	children := map[int][]int{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		parent, alive := parentOf(pid)
		if alive {
			children[parent] = append(children[parent], pid)
		}
	}
	for next := []int{of}; len(next) > 0; next = next[1:] {
		pids = append(pids, children[next[0]]...)
		next = append(next, children[next[0]]...)
	}
	return pids
}

// parentOf returns the parent of a process, and false for one that has ended.
func parentOf(pid int) (parent int, alive bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, false
	}
	// The name in parentheses may have any character: "12 (a) b) S 1 ...".
	_, rest, _ := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')')+1:]), " ")
	fields := strings.Fields(rest)
	if len(fields) < 2 || fields[0] == "Z" || fields[0] == "X" {
		return 0, false
	}
	parent, err = strconv.Atoi(fields[1])
	return parent, err == nil
}

// exitAs returns the code of a command, and 128 and its number for a signal, as a shell does.
func exitAs(status syscall.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}
