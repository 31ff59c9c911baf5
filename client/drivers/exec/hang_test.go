package exec_test

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/client/driver"
	"berth/internal/exectest"
)

// hanging makes a program of a task that hangs between fork and exec.
func (r *fixture) hanging(cfg *driver.TaskConfig) (path string, hang *exectest.Hang) {
	r.t.Helper()
	host := cfg.Dirs.AllocShared + "/hang"
	if err := os.WriteFile(host, []byte("#!/bin/sh\n"), 0o755); err != nil {
		r.t.Fatal(err)
	}
	return "/alloc/hang", exectest.HangExec(r.t, host)
}

// readSpaces tries to open the memory of each process but itself.
const readSpaces = `echo up; until test -e /local/go; do sleep 0.01; done
	for p in /proc/[0-9]*; do
		if test $p != /proc/$$ && ( : < $p/mem ) 2>/dev/null; then echo $p >> /local/opened; fi
	done; touch /local/tried; exec sleep 1000`

// A child of pid 1 has the memory of pid 1 and the user of the task until it executes its program.
func TestExec_HidesTheMemoryOfPid1(t *testing.T) {
	r := newFixture(t)
	cfg := r.task("t", readSpaces)
	cfg.User = "nobody"
	r.start(cfg)
	r.awaitOutput(cfg, "up")
	path, hang := r.hanging(cfg)
	ended := make(chan error, 1)
	go func() {
		_, err := r.Exec(r.ctx(), cfg.ID, &driver.ExecConfig{
			Command: []string{path},
			Stdout:  io.Discard,
			Stderr:  io.Discard,
		})
		ended <- err
	}()
	child := hang.Await()
	if user, permitted := ofProcess(t, child, "Uid"), ofProcess(t, child, "CapPrm"); user != "65534" {
		t.Errorf("the child has the user %s, want 65534", user)
	} else if caps, err := strconv.ParseUint(permitted, 16, 64); err != nil || caps>>unix.CAP_SYS_ADMIN&1 == 0 {
		t.Errorf("the child has the permitted capabilities %s: the kernel opens it to its user", permitted)
	}
	if err := os.WriteFile(cfg.Dirs.Local+"/go", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	r.waitUntil("the task has tried", func() bool { return exists(cfg.Dirs.Local + "/tried") })
	if opened, err := os.ReadFile(cfg.Dirs.Local + "/opened"); err == nil {
		t.Errorf("the task has opened the memory of %q", opened)
	}
	hang.Release()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// ofProcess reads the first value of a field of /proc/PID/status.
func ofProcess(t *testing.T, pid int, field string) string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, after, found := strings.Cut(string(b), "\n"+field+":\t")
	if err != nil || !found {
		t.Fatalf("process %d has no %s (%v)", pid, field, err)
	}
	return strings.Fields(after)[0]
}
