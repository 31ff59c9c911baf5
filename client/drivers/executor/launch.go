package executor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"berth/client/drivers/sandbox"
	"berth/client/machine/netns"
	"berth/structs"
)

// launch starts a supervisor, if the task is not prepared, and gives it the spec. It returns when the task
// runs. After a failure the caller has to remove the directory.
func (t *task) launch(ctx context.Context, spec *Spec) (pid int, err error) {
	if t.starting == nil {
		err = t.spawn(spec.Network)
		if err != nil {
			return 0, fmt.Errorf("starting a supervisor: %w", err)
		}
	}

	s := t.starting
	t.starting = nil
	defer s.close()
	defer interruptAtEnd(ctx, s.spec)()
	defer interruptAtEnd(ctx, s.answer)()
	// A supervisor that could not prepare the task has ended, and its answer says why.
	unsent := errors.Join(s.send(spec), s.spec.Close())
	answer := &reply{}
	err = json.NewDecoder(s.answer).Decode(answer)
	switch {
	case err == nil:
		pid = t.child.Process.Pid
		if answer.Error == "" && t.sandboxed && answer.Supervisor != pid {
			return 0, structs.Preconditionf("the executable of the task's supervisor is of another version " +
				"than the agent: restart the agent")
		}
		return pid, answer.err()

	case ctx.Err() != nil:
		return 0, fmt.Errorf("waiting for the task to start: %w", ctx.Err())
	}

	return 0, fmt.Errorf("the supervisor ended before the task was started: %w", errors.Join(err, unsent))
}

// interruptAtEnd ends the reads and writes of a connection when ctx ends.
func interruptAtEnd(
	ctx context.Context, conn interface{ SetDeadline(time.Time) error },
) (stop func() bool) {
	return context.AfterFunc(ctx, func() {
		_ = conn.SetDeadline(time.Unix(1, 0))
	})
}

// spawn makes the directory and starts the supervisor, which inherits the lock. All processes of the task are
// in the network namespace of the supervisor.
func (t *task) spawn(network string) error {
	err := os.MkdirAll(t.dir, 0o700)
	if err != nil {
		return err
	}
	lock, err := takeLock(t.dir)
	if err != nil {
		return err
	}
	if lock == nil {
		return fmt.Errorf("another process holds the lock in %s", t.dir)
	}
	defer lock.Close()
	path := filepath.Join(t.dir, logFile)
	log, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	input, spec, err := os.Pipe()
	if err != nil {
		return err
	}
	defer input.Close()
	answer, status, err := os.Pipe()
	if err != nil {
		return errors.Join(err, spec.Close())
	}
	defer status.Close()

	cmd := t.supervisorCommand(input, log, lock, status)
	if t.sandboxed {
		exe, err := sandbox.Isolate(cmd)
		if err != nil {
			return errors.Join(err, spec.Close(), answer.Close())
		}
		defer exe.Close()
	}
	start := func() error { return sandbox.StartSupervisor(cmd.Start) }
	if network == "" {
		err = start()
	} else {
		err = netns.Do(network, start)
	}
	t.starting = &starting{spec: spec, answer: answer}
	if err != nil {
		t.starting.close()
		return err
	}
	t.child = cmd
	return nil
}

// supervisorCommand returns the command of a supervisor. lockFD and statusFD give the order of the extra
// files. A session of its own keeps the signals of the agent's terminal away.
func (t *task) supervisorCommand(input, log, lock, status *os.File) *exec.Cmd {
	args := append(slices.Clone(t.command[1:]), t.dir)
	cmd := exec.Command(t.command[0], args...)
	cmd.Env = sandbox.RuntimeEnv(1)
	cmd.Stdin = input
	cmd.Stdout = log
	cmd.Stderr = log
	cmd.ExtraFiles = []*os.File{lock, status}
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	return cmd
}
