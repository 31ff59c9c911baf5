package drivertest

import (
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"

	"berth/client/drivers/protocol/driver"
)

// ExecTaskStreaming runs a command beside a task. A command with a terminal has none, but tells its size.
func (d *driverService) ExecTaskStreaming(s driver.Driver_ExecTaskStreamingServer) error {
	first, err := s.Recv()
	if err != nil {
		return err
	}

	setup := first.GetSetup()
	// A task that this process has not taken up is unknown to it, as to a real driver.
	_, err = d.known(setup.GetTaskId())
	if err != nil {
		return err
	}

	send := sendTo(s)
	// The end of the stream kills the command, as the interface wants it.
	cmd := exec.CommandContext(s.Context(), setup.GetCommand()[0], setup.GetCommand()[1:]...)
	cmd.Stdout = sender(func(p []byte) {
		send(&driver.ExecTaskStreamingResponse{Stdout: &driver.ExecTaskStreamingIOOperation{Data: p}})
	})
	cmd.Stderr = sender(func(p []byte) {
		send(&driver.ExecTaskStreamingResponse{Stderr: &driver.ExecTaskStreamingIOOperation{Data: p}})
	})
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}

	err = cmd.Start()
	if err != nil {
		return err
	}

	// A test looks by the pid whether the command was killed.
	d.plugin.append("commands", fmt.Sprint(cmd.Process.Pid))
	go feed(s, stdin, cmd.Stdout)
	err = cmd.Wait()
	// An exit code other than 0 is no failure of the call.
	if exited := new(exec.ExitError); err != nil && !errors.As(err, &exited) {
		return err
	}

	answer := &driver.ExecTaskStreamingResponse{Exited: true}
	// Without a result the agent must not take the exit code for 0.
	if d.plugin.setting("result") == "" {
		answer.Result = &driver.ExitResult{ExitCode: int32(cmd.ProcessState.ExitCode())}
	}

	send(answer)
	return nil
}

// sendTo returns a function that sends an answer. A stream takes one sender at a time, and each output has a
// goroutine of its own.
func sendTo(s driver.Driver_ExecTaskStreamingServer) func(*driver.ExecTaskStreamingResponse) {
	var lock sync.Mutex
	return func(answer *driver.ExecTaskStreamingResponse) {
		lock.Lock()
		defer lock.Unlock()
		_ = s.Send(answer)
	}
}

// feed passes input on until the stream ends.
func feed(s driver.Driver_ExecTaskStreamingServer, stdin io.WriteCloser, out io.Writer) {
	defer stdin.Close()
	for {
		in, err := s.Recv()
		if err != nil {
			return
		}

		// A test reads the size in the output.
		if size := in.GetTtySize(); size != nil {
			_, _ = fmt.Fprintf(out, "%dx%d\n", size.GetHeight(), size.GetWidth())
		}

		_, _ = stdin.Write(in.GetStdin().GetData())
		if in.GetStdin().GetClose() {
			_ = stdin.Close()
		}
	}
}

// sender is a writer that calls itself with each part of an output. The part is encoded before it returns.
type sender func(p []byte)

func (s sender) Write(p []byte) (int, error) {
	s(p)
	return len(p), nil
}
