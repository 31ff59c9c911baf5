package sandbox

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"berth/client/drivers/cgroups"
	"berth/structs"
)

// fork forks from the calling thread, after that has dropped the rights that the program must not have.
func (p *Program) fork(path string, attr *syscall.ProcAttr, entry *cgroups.Entry) (int, error) {
	argv := append([]string{p.Command}, p.Args...)

	// The thread ends after the fork (OnOwnThread), so nothing of this has to be undone.
	err := setSlack(programSlack)
	if err == nil {
		err = entry.MoveThread()
	}

	if err == nil && p.User != nil {
		err = keepPermitted()
	}

	if err == nil && p.Restrict {
		err = dropCapabilities()
	}
	if err != nil {
		return 0, err
	}

	if p.Restrict && (p.Seccomp || len(p.Filter) > 0) {
		return p.forkFiltered(path, argv, attr, entry)
	}

	// The child begins in the group of v2 (CLONE_INTO_CGROUP), and inherits the groups of v1 from this thread.
	attr.Sys.CgroupFD, attr.Sys.UseCgroupFD = entry.FD()
	return syscall.ForkExec(path, argv, attr)
}

// closeDirectories gives the calling thread its own table of files without the directories: a fork copies the
// table, and a path of the program through one of them, by /proc/self/fd, would lead to the host. That of the
// group leads nowhere. The thread is among the mounts of the host.
func closeDirectories(entry *cgroups.Entry) error {
	err := unix.Unshare(unix.CLONE_FILES)
	if err != nil {
		return fmt.Errorf("separating the open files: %w", err)
	}

	// /proc/self/fd would list the table of the main thread.
	files, err := os.ReadDir("/proc/thread-self/fd")
	if err != nil {
		return err
	}

	group, _ := entry.FD()
	for _, f := range files {
		fd, err := strconv.Atoi(f.Name())
		if err != nil {
			return err
		}

		var st unix.Stat_t
		err = unix.Fstat(fd, &st) // it fails for the list itself, which is closed
		if err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR && fd != group {
			_ = unix.Close(fd)
		}
	}

	return nil
}

// forkFiltered binds the calling thread, and with it the program, to the system call filter. The filter
// rejects clone3, the only call that forks into a group of cgroup v2. The kernel therefore stops the program
// before its first instruction, and the program enters the group while it is stopped.
func (p *Program) forkFiltered(
	path string, argv []string, attr *syscall.ProcAttr, entry *cgroups.Entry,
) (int, error) {
	if len(p.Filter) == 0 {
		return 0, structs.Preconditionf(
			"%s: the agent is of another version than its executable and gives no system call filter: restart the agent", p.Driver)
	}

	err := p.Filter.Install()
	if err != nil {
		return 0, err
	}

	// Only a group of v2 needs the stop: this thread is in the groups of v1 already.
	_, attr.Sys.Ptrace = entry.FD()
	pid, err := syscall.ForkExec(path, argv, attr)
	if err != nil || !attr.Sys.Ptrace {
		return pid, err
	}

	if err := releaseFork(pid, entry); err != nil {
		_ = unix.Kill(pid, unix.SIGKILL) // a child that is not reaped: the pid is its own
		_, _ = unix.Wait4(pid, nil, unix.WALL, nil)
		return 0, err
	}

	return pid, nil
}

// releaseFork moves a program that stopped at its start into its group and lets it run.
func releaseFork(pid int, entry *cgroups.Entry) error {
	var ws unix.WaitStatus
	err := error(unix.EINTR)
	for errors.Is(err, unix.EINTR) {
		_, err = unix.Wait4(pid, &ws, unix.WALL, nil)
	}
	if err != nil {
		return fmt.Errorf("waiting for the program to stop at its start: %w", err)
	}

	if !ws.Stopped() {
		return fmt.Errorf("the program ended before its first instruction (wait status %#x)", uint32(ws))
	}

	if err := entry.MoveProcess(pid); err != nil {
		return err
	}

	// Only the thread that forked is the tracer, and it is still this one: see OnOwnThread.
	if err := unix.PtraceDetach(pid); err != nil {
		return fmt.Errorf("letting the program run: %w", err)
	}

	return nil
}
