// Package process makes commands that end as a whole with their context and keep a bounded part of their
// output, and pseudo terminals. It also names processes that outlive the agent (Ref). It is small because the
// supervisor of tasks needs it, which has few packages.
package process

import (
	"context"
	"os/exec"
	"syscall"
	"time"
)

// killDelay is the time after the end of a program in which its output is waited for: a process that has left
// its group may hold the output open.
const killDelay = time.Second

// New returns a program and its arguments, with the environment of this process. Its whole process group ends
// with ctx: a shell would leave the program that it has started. Its working directory is /, since one in a
// mount would keep that from being unmounted.
func NewCommand(ctx context.Context, argv []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = "/"
	cmd.WaitDelay = killDelay
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}

// Output keeps the first Most bytes of an output.
type Output struct {
	Most int
	Kept []byte
	More bool // there were more
}

// Write keeps the bytes that have a place, and never fails.
func (o *Output) Write(p []byte) (int, error) {
	n := min(len(p), o.Most-len(o.Kept))
	o.More = o.More || n < len(p)
	o.Kept = append(o.Kept, p[:n]...)
	return len(p), nil
}
