package exec_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/client/drivers/driver"
	"berth/test/kit"
)

// hanging makes a program of a task that hangs between fork and exec.
func (r *fixture) hanging(cfg *driver.TaskConfig) (path string, hang *kit.Hang) {
	r.t.Helper()
	host := cfg.Dirs.AllocShared + "/hang"
	if err := kit.WriteProgram(host, "#!/bin/sh\n"); err != nil {
		r.t.Fatal(err)
	}
	return "/alloc/hang", kit.HangExec(r.t, host)
}

// execute executes a program in a task, without a shell. The channel receives its end.
func (r *fixture) execute(cfg *driver.TaskConfig, path string) <-chan error {
	ended := make(chan error, 1)
	ctx := r.ctx()
	go func() {
		_, err := r.Exec(ctx, cfg.ID, &driver.ExecConfig{
			Command: []string{path},
			Stdout:  io.Discard,
			Stderr:  io.Discard,
		})
		ended <- err
	}()
	return ended
}

// The program of a task hangs before its first instruction. The end of the start ends it, too.
func TestStart_EndsWhileItsProgramHangs(t *testing.T) {
	r := newFixture(t)
	cfg := r.task("t", "")
	path, hang := r.hanging(cfg)
	cfg.Config = map[string]any{"command": path}
	ctx, cancel := context.WithCancel(r.ctx())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := r.Start(ctx, cfg)
		ended <- err
	}()
	child := hang.Await()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if exists(fmt.Sprintf("/proc/%d/exe", child)) {
		t.Error("the program still hangs")
	}
	r.checkClean(cfg)
}

// A command in a task begins to hang before its first instruction, after the supervisor has begun to stop the
// task: the supervisor no longer answers.
func TestStop_EndsAHangingCommand(t *testing.T) {
	t.Parallel() // it waits for the answer
	r := newFixture(t)
	cfg := r.task("t", `trap 'echo asked' INT; echo up; while :; do sleep 0.01; done`)
	r.start(cfg)
	r.awaitOutput(cfg, "up")
	path, hang := r.hanging(cfg)
	stopped := make(chan error, 1)
	ctx := r.ctx()
	go func() { stopped <- r.Stop(ctx, cfg.ID, "", 10*time.Second) }()
	r.awaitOutput(cfg, "asked")
	ended := r.execute(cfg, path)
	child := hang.Await()
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	if exists(fmt.Sprintf("/proc/%d/exe", child)) {
		t.Error("the command still hangs")
	}
	if err := <-ended; err == nil {
		t.Error("the command was started")
	}
	if res := r.wait(cfg); !contains(res.Err, "supervisor was killed") {
		t.Errorf("got the end %+v, want an unknown one", res)
	}
	r.destroy(cfg)
}

// Root in a task may take the open files of its supervisor away.
func TestStop_OfATaskThatLimitsItsSupervisor(t *testing.T) {
	t.Parallel() // it waits for an answer
	r := newFixture(t)
	cfg := r.task("t", `prlimit --pid 1 --nofile=0 --fsize=0 && echo limited; trap '' INT; while :; do sleep 0.01; done`)
	h := r.start(cfg)
	r.waitUntil("the supervisor is limited", func() bool {
		var l unix.Rlimit
		err := unix.Prlimit(h.PID, unix.RLIMIT_NOFILE, nil, &l)
		return err == nil && l.Max == 0
	})
	program := r.programOf(h.PID)
	if err := r.Stop(r.ctx(), cfg.ID, "", time.Second); err != nil {
		t.Fatal(err)
	}
	if exists(fmt.Sprintf("/proc/%d/exe", program)) {
		t.Error("the program still runs")
	}
	r.destroy(cfg)
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
	ended := r.execute(cfg, path)
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
