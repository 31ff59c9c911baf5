package rawexec_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/client/drivers/driver"
	"berth/structs"
)

func TestExec_RunsBesideTheTask(t *testing.T) {
	withAndWithoutCgroups(t, func(r *fixture) {
		cfg := r.task(`pwd; cat /proc/self/cgroup; echo end; exec sleep 1000`)
		cfg.Env = map[string]string{"GREETING": "hello"}
		r.start(cfg)
		for limit := time.Now().Add(patience); !strings.HasSuffix(r.output(), "end\n"); {
			if time.Now().After(limit) {
				r.t.Fatalf("the output is %q", r.output())
			}
			time.Sleep(2 * time.Millisecond)
		}
		want := strings.TrimSuffix(r.output(), "end\n") + "hello\n"
		for _, tty := range []bool{false, true} {
			var out, errs bytes.Buffer
			result, err := r.d.Exec(r.ctx, cfg.ID, &driver.ExecConfig{
				Command: []string{"sh", "-c", "pwd; cat /proc/self/cgroup; echo $GREETING >&2; exit 7"},
				TTY:     tty,
				Stdout:  &out,
				Stderr:  &errs,
			})
			got := strings.ReplaceAll(out.String(), "\r\n", "\n") + errs.String()
			if err != nil || result.ExitCode != 7 || got != want {
				r.t.Errorf("tty %t: got %+v, %v: %q, want %q", tty, result, err, got, want)
			}
		}
	})
}

// A supervisor is started with a timer slack of its own. Its programs have the slack of any other program.
func TestStart_PassesNoTimerSlackOn(t *testing.T) {
	withAndWithoutCgroups(t, func(r *fixture) {
		const script = "cat /proc/self/timerslack_ns"
		cfg := r.task(script + "; exec sleep 1000")
		h := r.start(cfg)
		if got := r.awaitNumbers(1)[0]; got != 50_000 {
			r.t.Errorf("the task has the timer slack %d", got)
		}
		var out bytes.Buffer
		_, err := r.d.Exec(r.ctx, cfg.ID, &driver.ExecConfig{
			Command: []string{"sh", "-c", script},
			Stdout:  &out,
			Stderr:  &out,
		})
		if err != nil || out.String() != "50000\n" {
			r.t.Errorf("a command has the timer slack %q, %v", out.String(), err)
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/timerslack_ns", h.PID))
		if err != nil || string(text) != "1000000\n" {
			r.t.Errorf("the supervisor has the timer slack %q, %v", text, err)
		}
	})
}

func TestExec_TheEndOfItsContextKillsTheCommand(t *testing.T) {
	withAndWithoutCgroups(t, func(r *fixture) {
		cfg := r.task(`exec sleep 1000`)
		r.start(cfg)
		ctx, cancel := context.WithCancel(r.ctx)
		pid, ended := r.command(ctx, cfg, `trap '' HUP TERM; echo $$; sleep 1000`)
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			r.t.Errorf("got %v", err)
		}
		r.awaitGone(pid)
	})
}

// The supervisor is killed beside a command: no process of the command is left after the task is destroyed.
func TestExec_EndsWithTheSupervisor(t *testing.T) {
	withAndWithoutCgroups(t, func(r *fixture) {
		cfg := r.task(`exec sleep 1000`)
		h := r.start(cfg)
		pid, ended := r.command(r.ctx, cfg, `trap '' HUP TERM PIPE; sleep 1000 & echo $!; while :; do sleep 1; done`)
		if err := unix.Kill(h.PID, unix.SIGKILL); err != nil {
			r.t.Fatal(err)
		}
		if err := <-ended; !structs.IsKind(err, structs.KindConflict) {
			r.t.Errorf("got %v", err)
		}
		if err := r.d.Destroy(r.ctx, cfg.ID, nil); err != nil {
			r.t.Fatal(err)
		}
		r.awaitGone(pid)
	})
}

// command runs a script that writes the id of a process.
func (r *fixture) command(
	ctx context.Context, cfg *driver.TaskConfig, script string,
) (pid int, ended <-chan error) {
	r.t.Helper()
	lines, out := io.Pipe()
	result := make(chan error, 1)
	go func() {
		_, err := r.d.Exec(ctx, cfg.ID, &driver.ExecConfig{
			Command: []string{"sh", "-c", script},
			Stdout:  out,
			Stderr:  out,
		})
		_ = out.CloseWithError(err)
		result <- err
	}()
	if _, err := fmt.Fscanln(lines, &pid); err != nil {
		r.t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	return pid, result
}

func (r *fixture) awaitGone(pid int) {
	r.t.Helper()
	for end := time.Now().Add(patience); !hasEnded(pid); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("process %d still runs", pid)
		}
	}
}
