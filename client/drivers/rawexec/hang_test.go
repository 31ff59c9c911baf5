package rawexec_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"berth/client/drivers/driver"
	"berth/test/kit"
)

// The program of a task hangs before its first instruction, and its supervisor has not recorded it. The end
// of the start ends both.
func TestStart_EndsWhileItsProgramHangs(t *testing.T) {
	for _, cgroups := range []bool{true, false} {
		r := newFixture(t, cgroups)
		cfg := r.task("")
		program := r.dir + "/hang"
		if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		cfg.Config = map[string]any{"command": program}
		hang := kit.HangExec(t, program)
		ctx, cancel := context.WithCancel(r.ctx)
		defer cancel()
		ended := make(chan error, 1)
		go func() {
			_, err := r.d.Start(ctx, cfg)
			ended <- err
		}()
		child := hang.Await()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if _, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", child)); err == nil {
			t.Error("the program still hangs")
		}
		hang.Release()
	}
}

// The supervisor hangs before it has forked anything. The end of the start ends it: the cgroup tells that
// there is no program.
func TestStart_EndsWhileALookUpHangs(t *testing.T) {
	r := newFixture(t, true)
	cfg := r.task("")
	hang := kit.HangLookUps(t)
	cfg.Config = map[string]any{"command": hang.Path}
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := r.d.Start(ctx, cfg)
		ended <- err
	}()
	hang.Await()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if left, err := os.ReadDir(r.dir + "/ex"); err != nil || len(left) > 0 {
		t.Errorf("the start left %v (%v)", left, err)
	}
}

// The look-up of a command hangs: the supervisor answers, and sees no end of the task.
func TestStop_EndsATaskBesideALookUpThatHangs(t *testing.T) {
	t.Parallel() // it waits for the end of the supervisor
	withAndWithoutCgroups(t, func(r *fixture) {
		r.t.Parallel()
		cfg := r.task(`echo $$; exec sleep 1000`)
		r.start(cfg)
		program := r.awaitNumbers(1)[0]
		hang := kit.HangLookUps(r.t)
		ended := make(chan error, 1)
		go func() {
			_, err := r.d.Exec(r.ctx, cfg.ID, &driver.ExecConfig{
				Command: []string{hang.Path},
				Stdout:  io.Discard,
				Stderr:  io.Discard,
			})
			ended <- err
		}()
		hang.Await()
		if err := r.d.Stop(r.ctx, cfg.ID, "SIGTERM", 0); err != nil {
			r.t.Fatal(err)
		}
		if err := <-ended; err == nil {
			r.t.Error("the command was started")
		}
		if res := r.wait(cfg); !strings.Contains(res.Err, "supervisor was killed") {
			r.t.Errorf("got the end %+v, want an unknown one", res)
		}
		r.awaitGone(program)
	})
}
