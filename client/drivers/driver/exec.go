package driver

import (
	"bytes"
	"context"
	"io"

	"berth/structs/nodecalls"
)

// Execer is a driver that runs commands in its tasks.
type Execer interface {
	// Exec runs the command in the running task, with its user, environment, namespaces, root and cgroup, and
	// returns when the command has ended. ctx's end kills the command; then the error is ctx's cause. The
	// error is not-found if there is no such task, a conflict if it has ended, and invalid if the command
	// cannot be started. Processes that the command leaves in the background end with the task.
	Exec(ctx context.Context, taskID string, x *ExecConfig) (*ExitResult, error)
}

// ExecConfig is the input of Exec.
type ExecConfig struct {
	Command []string // the program and its arguments
	TTY     bool     // the command has a terminal, and all output goes to Stdout
	// Stdin is closed before Exec returns if it is an io.Closer; that ends a Read that waits. Nil is empty.
	Stdin  io.Reader
	Stdout io.Writer // an error of either writer ends the command
	Stderr io.Writer
	Resize <-chan TerminalSize // of the terminal; may be nil
}

// TerminalSize is the size of a terminal in characters.
type TerminalSize = nodecalls.TerminalSize

// endOfInput is the character that ends the input of a program that reads lines from a terminal.
const endOfInput = 4

// CopyInput copies Stdin to a command until the end of either, and drops the part that the command does not
// read any more. At the end of Stdin it calls end; a terminal gets the character for that instead.
func (x *ExecConfig) CopyInput(to io.Writer, end func() error) {
	from := x.Stdin
	if from == nil {
		from = bytes.NewReader(nil)
	}

	_, err := io.Copy(to, from)
	switch {
	case err != nil:
		_, _ = io.Copy(io.Discard, from)
	case x.TTY:
		_, _ = to.Write([]byte{endOfInput})
	default:
		_ = end() // a command that has ended needs none
	}
}

// CloseInput ends a Read of Stdin that waits.
func (x *ExecConfig) CloseInput() {
	if c, ok := x.Stdin.(io.Closer); ok {
		_ = c.Close()
	}
}

// FollowSize calls set for each size of the terminal until ctx ends.
func (x *ExecConfig) FollowSize(ctx context.Context, set func(TerminalSize)) {
	for {
		select {
		case size, more := <-x.Resize:
			if !more {
				return
			}

			if x.TTY {
				set(size.Bounded())
			}
		case <-ctx.Done():
			return
		}
	}
}
