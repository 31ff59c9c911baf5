package executor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"berth/client/drivers/sandbox"
)

// launch makes the directory and starts a supervisor in it. It returns when the task runs. After a failure
// the caller has to remove the directory.
func (t *task) launch(ctx context.Context, spec *Spec) (pid int, err error) {
	if err := os.MkdirAll(t.dir, 0o700); err != nil {
		return 0, err
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return 0, err
	}
	h, err := t.spawn()
	if err != nil {
		return 0, fmt.Errorf("starting a supervisor: %w", err)
	}
	defer h.close()
	defer context.AfterFunc(ctx, h.interrupt)()
	if err := h.sendSpec(text); err != nil && ctx.Err() == nil { // the answer gives the reason, if there is one
		err = fmt.Errorf("telling the supervisor what to run: %w", err)
		return 0, errors.Join(h.readAnswer(), err)
	}
	if err := h.readAnswer(); err != nil {
		if ctx.Err() != nil {
			return 0, fmt.Errorf("waiting for the task to start: %w", ctx.Err())
		}
		return 0, err
	}
	return t.child.Process.Pid, nil
}

// launchPipes is the agent's end of a supervisor that starts.
type launchPipes struct{ spec, status *os.File }

// spawn starts the supervisor with the lock already its own.
func (t *task) spawn() (*launchPipes, error) {
	lock, err := takeLock(t.dir)
	if err != nil {
		return nil, err
	}
	if lock == nil {
		return nil, fmt.Errorf("another process holds the lock in %s", t.dir)
	}
	defer lock.Close()
	log, err := os.OpenFile(filepath.Join(t.dir, logFile), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	specR, specW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer specR.Close()
	statusR, statusW, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, specW.Close())
	}
	defer statusW.Close()
	h := &launchPipes{specW, statusR}
	if err := t.exec(log, specR, lock, statusW); err != nil {
		h.close()
		return nil, err
	}
	return h, nil
}

func (t *task) exec(log, spec, lock, status *os.File) error {
	command := t.command
	cmd := exec.Command(command[0], append(command[1:len(command):len(command)], t.dir)...)
	cmd.Env = sandbox.RuntimeEnv(2)
	cmd.Stdin = spec
	cmd.Stdout = log
	cmd.Stderr = log
	cmd.ExtraFiles = []*os.File{lock, status}
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	t.child = cmd
	return nil
}

func (h *launchPipes) sendSpec(spec []byte) error {
	_, err := h.spec.Write(spec)
	return errors.Join(err, h.spec.Close())
}

func (h *launchPipes) readAnswer() error {
	r := &reply{}
	if err := json.NewDecoder(h.status).Decode(r); err != nil {
		return fmt.Errorf("the supervisor ended before the task was started: %w", err)
	}
	return r.err()
}

// interrupt makes sendSpec and readAnswer return.
func (h *launchPipes) interrupt() {
	past := time.Unix(1, 0)
	_ = h.spec.SetDeadline(past)
	_ = h.status.SetDeadline(past)
}

func (h *launchPipes) close() {
	_ = h.spec.Close() // closed already when it was told
	_ = h.status.Close()
}
