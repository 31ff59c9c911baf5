package executor

import (
	"bytes"
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
	"berth/client/netns"
)

// launch makes the directory and starts a supervisor in it. It returns when the task runs. After a failure
// the caller has to remove the directory.
func (t *task) launch(ctx context.Context, spec *Spec) (pid int, err error) {
	err = os.MkdirAll(t.dir, 0o700)
	if err != nil {
		return 0, err
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return 0, err
	}
	status, err := t.spawn(text, spec.Network)
	if err != nil {
		return 0, fmt.Errorf("starting a supervisor: %w", err)
	}
	defer status.Close()
	defer interruptAtEnd(ctx, status)()
	answer := &reply{}
	err = json.NewDecoder(status).Decode(answer)
	switch {
	case err == nil:
		return t.child.Process.Pid, answer.err()
	case ctx.Err() != nil:
		return 0, fmt.Errorf("waiting for the task to start: %w", ctx.Err())
	}
	return 0, fmt.Errorf("the supervisor ended before the task was started: %w", err)
}

// interruptAtEnd ends the reads and writes of a connection when ctx ends.
func interruptAtEnd(
	ctx context.Context, conn interface{ SetDeadline(time.Time) error },
) (stop func() bool) {
	return context.AfterFunc(ctx, func() {
		_ = conn.SetDeadline(time.Unix(1, 0))
	})
}

// spawn starts the supervisor, which inherits the lock, and returns the pipe on which it answers. A goroutine
// of this process writes the spec. It ends when the supervisor has read the spec or has ended. All processes
// of the task are in the network namespace of the supervisor.
func (t *task) spawn(spec []byte, network string) (*os.File, error) {
	lock, err := takeLock(t.dir)
	if err != nil {
		return nil, err
	}
	if lock == nil {
		return nil, fmt.Errorf("another process holds the lock in %s", t.dir)
	}
	defer lock.Close()
	path := filepath.Join(t.dir, logFile)
	log, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	answer, status, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer status.Close()
	args := append(slices.Clone(t.command[1:]), t.dir)
	cmd := exec.Command(t.command[0], args...)
	cmd.Env = sandbox.RuntimeEnv(1)
	cmd.Stdin = bytes.NewReader(spec)
	cmd.Stdout = log
	cmd.Stderr = log
	cmd.ExtraFiles = []*os.File{lock, status}
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	if network == "" {
		err = cmd.Start()
	} else {
		err = netns.Do(network, cmd.Start)
	}
	if err != nil {
		return nil, errors.Join(err, answer.Close())
	}
	t.child = cmd
	return answer, nil
}
