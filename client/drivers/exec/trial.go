package exec

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"berth/client/drivers/cgroups"
	"berth/client/drivers/executor"
	"berth/client/drivers/sandbox"
)

// trialTime bounds the wait for a trial. Its sandbox shows directories of the host, which may hang.
const trialTime = 10 * time.Second

// trial makes one sandbox, as for a task. A container without privileges, or an agent without a capability,
// can do some of the steps, and each task would fail at the others.
type trial struct {
	mu    sync.Mutex
	works bool          // a sandbox was made
	ended chan struct{} // closed at the end of the trial under way; nil: there is none
	err   error         // of the last trial
}

// result returns the outcome of a trial, and makes one if none has succeeded yet.
func (t *trial) result(ctx context.Context, try func() error) error {
	ctx, cancel := context.WithTimeout(ctx, trialTime)
	defer cancel()
	t.mu.Lock()
	if t.works {
		t.mu.Unlock()
		return nil
	}
	if t.ended == nil {
		t.ended = make(chan struct{})
		go t.run(try)
	}
	ended := t.ended
	t.mu.Unlock()

	select {
	case <-ended:
	case <-ctx.Done():
		return errors.New("the trial of a sandbox has no result yet: a directory that tasks see does not answer")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// run makes the trial. It ends with the sandbox.
func (t *trial) run(try func() error) {
	runtime.LockOSThread() // a sandbox ends with the thread that made it
	defer runtime.UnlockOSThread()
	err := try()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.err = err
	t.works = err == nil
	close(t.ended)
	t.ended = nil
}

// trySandbox makes a sandbox with the rights and the files of a task, and ends it. Its program is the agent's
// executable, which tasks see, too.
func (d *Driver) trySandbox() error {
	root, err := os.MkdirTemp("", "berth-sandbox-")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(root) }() // the root of the sandbox was mounted over it for the sandbox alone

	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { _ = null.Close() }()

	shown := d.cfg.shownPaths()
	hidden, err := d.cfg.hiddenPaths(shown)
	if err != nil {
		return err
	}
	calls, err := d.filter()
	if err != nil {
		return err
	}

	const program = binDir + "/berth"
	proc, err := sandbox.Start(&sandbox.Config{
		Root:      root,
		HostPaths: shown,
		Hidden:    hidden,
		Binds:     []sandbox.Bind{{Source: d.Executable(), Target: program, ReadOnly: true}},
		Program: sandbox.Program{
			Driver:   d.Name(),
			Where:    "in the root of the trial",
			Command:  program,
			Args:     []string{"executor"}, // it says how it is used, to nobody
			Dir:      "/",
			User:     &sandbox.User{},
			Restrict: true,
			Seccomp:  d.cfg.Seccomp == SeccompDefault,
			Filter:   calls,
			NoFile:   uint64(d.cfg.MaxFiles),
		},
	}, sandbox.Options{
		Command: append(d.Supervisor(), executor.InitArg),
		Stdout:  null,
		Stderr:  null,
		Group:   &cgroups.Group{},
	})
	if err != nil {
		return fmt.Errorf("a sandbox was tried: %w%s", err, userNamespace("/proc/self/uid_map"))
	}
	_ = proc.Kill()
	_, _ = proc.Wait() // the program was started, which is all that was to be tried
	return nil
}

// userNamespace says that this process is in a user namespace, "" if it is not. path is /proc/self/uid_map:
// the first one of a machine has all users.
func userNamespace(path string) string {
	text, err := os.ReadFile(path)
	if err != nil || strings.Join(strings.Fields(string(text)), " ") == "0 0 4294967295" {
		return ""
	}
	return " (the agent is in a user namespace, as in a container without privileges: run it on the " +
		"machine itself, or in a container with privileges)"
}
