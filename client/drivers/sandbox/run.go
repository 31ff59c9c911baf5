package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"berth/client/drivers/cgroups"
	"berth/structs"
)

// Running is a sandbox whose pid 1 is this process. The process itself stays among the mounts of the host:
// only threads that start a program of the sandbox enter its mounts.
type Running struct {
	// Commands are the sessions beside the program.
	Commands *Sessions

	pid    int // of the program
	mounts *os.File
	entry  *cgroups.Entry
}

// Run builds the root and starts the program in it. This process must be pid 1 of its namespaces (see
// Isolate) and have no other children. It has marked its files close-on-exec. The signals of the program
// do not end it, unless it ends at their receipt by a channel of its own. If Run fails it leaves no
// process and no mount.
func Run(cfg *Config, stdout, stderr *os.File, group *cgroups.Group) (*Running, error) {
	err := becomePid1(cfg)
	if err != nil {
		return nil, err
	}

	mounts, err := makeRoot(cfg)
	if err != nil {
		return nil, err
	}

	r := &Running{mounts: mounts}
	// The entry stays open for the commands beside the program. close ends it.
	r.entry, err = group.Entry()
	if err != nil {
		return nil, errors.Join(err, mounts.Close())
	}

	program := cfg.Program
	program.mounts = mounts
	r.pid, err = program.Start(stdout, stderr, r.entry)
	if err != nil {
		return nil, errors.Join(err, r.close())
	}

	r.Commands = &Sessions{
		Program:     &program,
		Entry:       r.entry,
		Children:    &Children{},
		Multiplexer: "/dev/pts/ptmx", // of the sandbox's own devpts; the program could replace /dev/ptmx
	}

	return r, nil
}

// becomePid1 prepares this process for its work. An older agent whose executable was replaced on disk has not
// isolated it.
func becomePid1(cfg *Config) error {
	if os.Getpid() != 1 {
		return structs.Preconditionf("%s: the agent is of another version than its executable and has not "+
			"isolated the process of the task: restart the agent", cfg.Program.Driver)
	}

	swallowSignals()
	err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) // hides /proc/1 from the program
	if err != nil {
		return err
	}

	if cfg.Hostname != "" {
		err = unix.Sethostname([]byte(cfg.Hostname))
		if err != nil {
			return fmt.Errorf("setting the name of the host: %w", err)
		}
	}

	return nil
}

// deadly are the signals at which the Go runtime ends a process, except SIGTERM, SIGINT and SIGHUP, which
// os/signal turns into an orderly end for the caller of Run.
var deadly = []os.Signal{
	unix.SIGQUIT, unix.SIGILL, unix.SIGTRAP, unix.SIGABRT, unix.SIGBUS,
	unix.SIGFPE, unix.SIGSEGV, unix.SIGSTKFLT, unix.SIGSYS,
}

// swallowSignals prevents that a signal of the program ends pid 1. Programs inherit ignored signals, so it
// does not ignore them. The kernel itself keeps signals without a handler from pid 1.
func swallowSignals() {
	signal.Notify(make(chan os.Signal, 1), deadly...)
}

// makeRoot builds the root in a new mount namespace and returns the namespace. It lives as long as the
// file is open or a process is in it.
func makeRoot(cfg *Config) (mounts *os.File, err error) {
	cgroups.OnOwnThread(func() {
		err = unix.Unshare(unix.CLONE_NEWNS)
		if err != nil {
			err = fmt.Errorf("making the mount namespace: %w", err)
			return
		}
		mounts, err = os.Open("/proc/thread-self/ns/mnt")
		if err == nil {
			err = buildRoot(cfg)
		}
	})
	if err != nil {
		_ = mounts.Close() // a nil file only returns an error
		return nil, err
	}
	return mounts, nil
}

// enterMounts moves the calling thread, which has to end afterwards, to the root of a mount namespace. nil is
// this process's own.
func enterMounts(mounts *os.File) error {
	if mounts == nil {
		return nil
	}
	err := unix.Unshare(unix.CLONE_FS) // threads with a common root cannot enter
	if err == nil {
		err = unix.Setns(int(mounts.Fd()), unix.CLONE_NEWNS)
	}
	if err != nil {
		return fmt.Errorf("entering the mounts of the task: %w", err)
	}
	return nil
}

// Signal sends a signal to the program. ESRCH means that the program has ended.
func (r *Running) Signal(sig unix.Signal) error {
	return r.Commands.Children.signal(r.pid, sig)
}

// Kill kills all processes of the sandbox at once, except this one. Wait then returns SIGKILL as the end of
// the program.
func (r *Running) Kill() error {
	// Commands that start during the kill would escape it.
	r.Commands.Children.end()
	return killOthers()
}

// killOthers kills all processes of the namespace of which this process is pid 1.
func killOthers() error {
	if os.Getpid() != 1 { // the call would kill all processes of the machine
		return structs.Internalf("not pid 1 of a sandbox")
	}
	err := unix.Kill(-1, unix.SIGKILL)
	if errors.Is(err, unix.ESRCH) {
		return nil // there is none
	}
	return err
}

// Wait returns when all processes of the sandbox, except this one, have ended, and its mounts are gone. After
// an error the end of the program is unknown.
func (r *Running) Wait() (Exit, error) {
	exit, err := r.Commands.Children.Reap(r.pid)
	return exit, errors.Join(err, r.close())
}

// close ends the sandbox. Processes that have lost their parent are children of this one, so it waits for
// all.
func (r *Running) close() error {
	err := killOthers()
	// The wait covers a process in state D, too, which dies later: the end of the task is not reported before
	// it.
	for err == nil || errors.Is(err, unix.EINTR) {
		_, err = unix.Wait4(-1, nil, 0, nil)
	}
	if errors.Is(err, unix.ECHILD) {
		err = nil
	}
	return errors.Join(err, r.entry.Close(), r.mounts.Close())
}
