package rawexec_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"berth/internal/exectest"
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
		hang := exectest.HangExec(t, program)
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
