package external

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"berth/client/drivers/driver"
	protocol "berth/client/drivers/protocol/driver"
	"berth/structs"
	"berth/structs/nodecalls"
)

// Exec implements driver.Execer. The end of ctx ends the stream, and the plugin kills the command. A
// command may be silent for any time. So a plugin that hangs is found by another call.
func (d *Driver) Exec(ctx context.Context, id string, x *driver.ExecConfig) (*driver.ExitResult, error) {
	err := nodecalls.CheckExec(x.Command)
	if err != nil {
		return nil, err
	}

	p, err := d.processFor(ctx, id)
	if err != nil {
		return nil, err
	}

	ctx, cancel := context.WithCancelCause(ctx)
	var asking sync.WaitGroup
	// The cancel runs before the Wait, whose goroutine it ends.
	defer asking.Wait()
	defer cancel(nil)
	asking.Go(func() {
		err := probeOnce(ctx, p.service)
		if err != nil && ctx.Err() == nil {
			cancel(fmt.Errorf("the driver plugin %q does not answer: %w", d.name, err))
		}
	})

	stream, err := p.service.ExecTaskStreaming(ctx)
	if err != nil {
		return nil, callError(err)
	}

	c := &command{stream: stream}
	c.begin(id, x)
	var input sync.WaitGroup
	input.Go(func() { x.CopyInput(c, c.closeInput) })
	input.Go(func() { x.FollowSize(ctx, c.resize) })
	result, err := c.receive(x)
	// The error of a stream that was cancelled says nothing of the cause, such as a probe without an answer.
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}

	cancel(nil) // ends a send
	x.CloseInput()
	input.Wait()
	return result, err
}

// processFor returns a process that knows the task and runs commands.
func (d *Driver) processFor(ctx context.Context, id string) (*process, error) {
	t, err := d.findTask(id)
	if err != nil {
		return nil, err
	}
	p, err := d.current()
	if err != nil {
		return nil, err
	}

	// A plugin without this capability may not implement the call.
	if !p.can.GetExec() {
		return nil, structs.Preconditionf("the driver plugin %q runs no commands in its tasks", d.name)
	}
	err = t.takeUp(ctx, p)
	// The agent holds the task, so a plugin that cannot find it says that it has ended.
	if structs.IsKind(err, structs.KindNotFound) {
		return nil, structs.Conflictf("task %q has ended: %w", id, err)
	}
	return p, err
}

// command is the stream of a command that runs in a task. Input and sizes come from two goroutines, and gRPC
// allows one send at a time.
type command struct {
	mu     sync.Mutex // held during a send
	stream protocol.Driver_ExecTaskStreamingClient
}

// begin asks for the command. receive returns the reason of a failure.
func (c *command) begin(id string, x *driver.ExecConfig) {
	_ = c.send(&protocol.ExecTaskStreamingRequest{Setup: &protocol.ExecTaskStreamingRequest_Setup{
		TaskId:  id,
		Command: x.Command,
		Tty:     x.TTY,
	}})
}

// send sends a message. The receiving side has the reason of a failure.
func (c *command) send(request *protocol.ExecTaskStreamingRequest) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stream.Send(request)
}

// Write passes input on.
func (c *command) Write(p []byte) (int, error) {
	err := c.send(&protocol.ExecTaskStreamingRequest{
		Stdin: &protocol.ExecTaskStreamingIOOperation{Data: p},
	})
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

func (c *command) closeInput() error {
	return c.send(&protocol.ExecTaskStreamingRequest{
		Stdin: &protocol.ExecTaskStreamingIOOperation{Close: true},
	})
}

func (c *command) resize(size driver.TerminalSize) {
	_ = c.send(&protocol.ExecTaskStreamingRequest{
		TtySize: &protocol.ExecTaskStreamingRequest_TerminalSize{
			Height: int32(size.Height),
			Width:  int32(size.Width),
		},
	})
}

// receive passes the output on until the command has ended.
func (c *command) receive(x *driver.ExecConfig) (*driver.ExitResult, error) {
	// A terminal has one output, whatever the plugin sends a part of it as.
	stderr := x.Stderr
	if x.TTY {
		stderr = x.Stdout
	}

	for {
		answer, err := c.stream.Recv()
		if err != nil {
			return nil, streamError(err)
		}

		err = passOn(x.Stdout, answer.GetStdout())
		if err == nil {
			err = passOn(stderr, answer.GetStderr())
		}
		if err != nil {
			return nil, fmt.Errorf("passing the output of the command on: %w", err)
		}

		if answer.GetExited() {
			if answer.GetResult() == nil {
				return nil, errNoResult
			}
			return &driver.ExitResult{
				ExitCode:  int(answer.GetResult().GetExitCode()),
				Signal:    int(answer.GetResult().GetSignal()),
				OOMKilled: answer.GetResult().GetOomKilled(),
			}, nil
		}
	}
}

// errNoResult is the error of a command whose plugin does not say how it has ended.
var errNoResult = structs.Internalf("driver plugin: the exit code of the command is unknown")

// streamError converts the end of a stream before the end of the command.
func streamError(err error) error {
	if errors.Is(err, io.EOF) {
		return errNoResult
	}
	return callError(err)
}

// passOn writes a part of an output.
func passOn(to io.Writer, part *protocol.ExecTaskStreamingIOOperation) error {
	if len(part.GetData()) == 0 {
		return nil
	}
	_, err := to.Write(part.GetData())
	return err
}
