package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"berth/client/drivers/docker/engine"
	"berth/client/drivers/driver"
	"berth/internal/backoff"
	"berth/structs"
	"berth/structs/nodecalls"
)

// Exec implements driver.Execer.
func (d *Driver) Exec(ctx context.Context, id string, x *driver.ExecConfig) (*driver.ExitResult, error) {
	t, err := d.tasks.find(id)
	if err != nil {
		return nil, err
	}

	err = nodecalls.CheckExec(x.Command)
	if err != nil {
		return nil, err
	}

	command, err := startCommand(ctx, d, t, x)
	if err != nil {
		d.noteFailure(err)
		return nil, explainExecError(t, err)
	}
	defer command.Close()

	// The cause is the error of the call: it precedes the daemon's error for a command that was killed.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// A goroutine copies the input, one follows the size of the terminal, and one kills the command.
	ended := make(chan struct{})
	var input, ending sync.WaitGroup
	input.Go(func() { x.CopyInput(command, command.CloseInput) })
	input.Go(func() {
		x.FollowSize(ctx, func(size driver.TerminalSize) { resize(ctx, command.Command, size) })
	})
	ending.Go(func() { command.endWith(ctx, ended) })

	copyErr := command.CopyOutput(watched{x.Stdout, cancel}, watched{x.Stderr, cancel})
	// The output has ended, so the command does not have to be killed any more.
	close(ended)
	ending.Wait()
	if copyErr != nil && ctx.Err() == nil {
		command.kill(ctx) // it runs, and its output is lost
		cancel(structs.Unavailablef("docker: reading the output of the command: %w", copyErr))
	}

	result, err := command.result(ctx)
	d.noteFailure(err)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}

	// No goroutine outlives the call: these lines end whatever the copy of the input waits for.
	cancel(nil)
	command.Close() // ends a write
	x.CloseInput()
	input.Wait()
	if err != nil {
		return nil, err
	}

	return result, nil
}

// startCommand starts a command in the container of a task.
func startCommand(
	ctx context.Context, d *Driver, t *task, x *driver.ExecConfig,
) (*runningCommand, error) {
	created, err := d.engine.NewCommand(ctx, t.container, x.Command, x.TTY)
	if err != nil {
		return nil, err
	}

	command := &runningCommand{created, t, d.logger}
	err = command.Start(ctx)
	if err != nil {
		// The answer may be lost although the daemon has started the command.
		command.kill(ctx)
	}

	return command, err
}

// explainExecError gives the errors of a task that has ended their kind.
func explainExecError(t *task, err error) error {
	if isGone(err) {
		return structs.Conflictf("task %q has ended: %w", t.id, err)
	}
	return err
}

// watched ends the command with the first error of a writer.
type watched struct {
	to     io.Writer
	cancel context.CancelCauseFunc
}

func (w watched) Write(p []byte) (int, error) {
	n, err := w.to.Write(p)
	if err != nil {
		w.cancel(fmt.Errorf("passing the output of the command on: %w", err))
	}
	return n, err
}

// resizeTries bounds the attempts to set a size: a daemon rejects one before it has started the command.
const resizeTries = 10

// resize sets the size of the terminal. Without success the command goes on with the size it has.
func resize(ctx context.Context, command *engine.Command, size driver.TerminalSize) {
	pause := backoff.Backoff{Min: 10 * time.Millisecond, Max: time.Second}
	for range resizeTries {
		if command.Resize(ctx, size) == nil || !pause.Wait(ctx) {
			return
		}
	}
}

// runningCommand is a command in the container of a task.
type runningCommand struct {
	*engine.Command
	task   *task
	logger hclog.Logger
}

// result returns the end of a command whose output has ended.
func (c *runningCommand) result(ctx context.Context) (*driver.ExitResult, error) {
	code, err := c.ExitCode(ctx)
	if err != nil {
		return nil, explainExecError(c.task, err)
	}
	return &driver.ExitResult{ExitCode: code}, nil
}

// endWith kills the command if ctx ends before its output. A process that the command has left behind may
// keep the output open.
func (c *runningCommand) endWith(ctx context.Context, ended <-chan struct{}) {
	select {
	case <-ended:
		return
	case <-ctx.Done():
	}
	c.kill(ctx)
	select {
	case <-ended:
	case <-time.After(cleanupTimeout):
	}
	c.Close()
}

// kill kills the process of a command that runs. The daemon has no call for that.
func (c *runningCommand) kill(ctx context.Context) {
	clean, cancel := detached(ctx)
	defer cancel()
	s, err := processOf(clean, c.Command)
	if err == nil && s.Running {
		err = killInContainer(s.PID, c.task.container)
	}
	if withoutNotFound(err) != nil {
		c.logger.Warn("failed to kill a command in a container", "task_id", c.task.id, "error", err)
	}
}

// processOf returns the state of a command with its process. The daemon names that a moment after it has
// started the command, whose output may arrive before.
func processOf(ctx context.Context, command *engine.Command) (engine.CommandState, error) {
	pause := backoff.Backoff{Min: 10 * time.Millisecond, Max: time.Second}
	for {
		s, err := command.State(ctx)
		if err != nil || !s.Running || s.PID > 0 {
			return s, err
		}
		if !pause.Wait(ctx) {
			return s, structs.Preconditionf("docker: the daemon does not name the process of the command")
		}
	}
}

// killInContainer kills a process if it is in the cgroup of the container. The daemon may count pids in
// another namespace, and may have missed the end of the process.
func killInContainer(pid int, container string) error {
	// The descriptor is older than the check, so the signal reaches the process that was checked.
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening process %d: %w", pid, err)
	}
	defer unix.Close(fd)

	groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}

	if !strings.Contains(string(groups), container) {
		return structs.Preconditionf("process %d is not in a cgroup of container %s", pid, container)
	}

	err = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}

	return err
}
