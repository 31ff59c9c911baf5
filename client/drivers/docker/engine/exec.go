package engine

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/client"

	"berth/internal/backoff"
	"berth/structs/nodecalls"
)

// Command is a command that runs in a container beside its program.
type Command struct {
	engine *Engine
	id     string
	tty    bool
	doing  string // in errors
	stream client.HijackedResponse
	closed sync.Once
}

// NewCommand makes a command in a running container, with the user and the environment of the container. It
// does not start the command. A container that does not run is a conflict.
func (e *Engine) NewCommand(
	ctx context.Context, container string, words []string, tty bool,
) (*Command, error) {
	c := &Command{engine: e, tty: tty, doing: "running a command in container " + container}
	err := e.call(ctx, c.doing, quickTimeout, func(ctx context.Context, api *moby) error {
		answer, err := api.ExecCreate(ctx, container, client.ExecCreateOptions{
			TTY:          tty,
			AttachStdin:  true,
			AttachStdout: true,
			AttachStderr: true,
			Cmd:          words,
		})
		c.id = answer.ID
		return err
	})
	if err != nil {
		return nil, err
	}

	return c, nil
}

// Start starts the command. One that cannot be started ends at once, with the reason in its output. After an
// error the command may run. Otherwise the caller closes it.
func (c *Command) Start(ctx context.Context) error {
	// The time bounds the answer. The stream outlasts it.
	ctx, cancel := context.WithTimeoutCause(ctx, slowTimeout, errNoAnswer)
	defer cancel()
	return c.engine.callUnbounded(ctx, c.doing, func(ctx context.Context, api *moby) error {
		answer, err := api.ExecAttach(ctx, c.id, client.ExecAttachOptions{TTY: c.tty})
		c.stream = answer.HijackedResponse
		return err
	})
}

// Close ends the connection. The command may run on.
func (c *Command) Close() { c.closed.Do(c.stream.Close) }

// CopyOutput copies the output of the command until its end. With a terminal all of it goes to stdout.
func (c *Command) CopyOutput(stdout, stderr io.Writer) error {
	if c.tty {
		_, err := io.Copy(stdout, c.stream.Reader)
		return err
	}
	_, err := stdcopy.StdCopy(stdout, stderr, c.stream.Reader)
	return err
}

// Write passes input on.
func (c *Command) Write(p []byte) (int, error) { return c.stream.Conn.Write(p) }

// CloseInput ends the input. That of a terminal has no end.
func (c *Command) CloseInput() error { return c.stream.CloseWrite() }

// Resize sets the size of the terminal.
func (c *Command) Resize(ctx context.Context, size nodecalls.TerminalSize) error {
	return c.engine.call(ctx, "resizing a terminal", quickTimeout,
		func(ctx context.Context, api *moby) error {
			_, err := api.ExecResize(ctx, c.id, client.ExecResizeOptions{
				Height: uint(size.Height),
				Width:  uint(size.Width),
			})
			return err
		})
}

// CommandState is the state of a command.
type CommandState struct {
	Running  bool
	ExitCode int
	PID      int // on the machine of the daemon, 0 if it is not known
}

// State asks for the state of the command.
func (c *Command) State(ctx context.Context) (CommandState, error) {
	var s CommandState
	err := c.engine.call(ctx, c.doing, quickTimeout, func(ctx context.Context, api *moby) error {
		answer, err := api.ExecInspect(ctx, c.id, client.ExecInspectOptions{})
		s = CommandState{Running: answer.Running, ExitCode: answer.ExitCode, PID: answer.PID}
		return err
	})
	return s, err
}

// settleTimeout bounds the time for which a daemon has a command as running after the end of its output.
const settleTimeout = 10 * time.Second

// ExitCode returns the exit code of a command whose output has ended.
func (c *Command) ExitCode(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, settleTimeout, errNoAnswer)
	defer cancel()
	pause := backoff.Backoff{Min: 10 * time.Millisecond, Max: time.Second}
	for {
		s, err := c.State(ctx)
		if err != nil || !s.Running {
			return s.ExitCode, err
		}
		if !pause.Wait(ctx) {
			return 0, c.engine.classify(ctx, c.doing, context.Cause(ctx))
		}
	}
}
