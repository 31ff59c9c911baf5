package exec_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"berth/client/drivers/driver"
	"berth/structs"
)

// prepare begins the start of a task. It returns the pid of the supervisor, which waits for the program.
func (r *fixture) prepare(ctx context.Context, cfg *driver.TaskConfig) int {
	r.t.Helper()
	if err := r.Prepare(ctx, cfg); err != nil {
		r.t.Fatal(err)
	}
	return r.awaitPrepared(cfg)
}

func (r *fixture) awaitPrepared(cfg *driver.TaskConfig) int {
	r.t.Helper()
	dir := r.DirOf(cfg.ID)
	r.waitUntil("the task is prepared", func() bool { // its last socket is there
		_, err := os.Stat(filepath.Join(dir, "exec"))
		return err == nil
	})
	text, err := os.ReadFile(filepath.Join(dir, "task.json"))
	if err != nil {
		r.t.Fatal(err)
	}
	var record struct{ Supervisor struct{ PID int } }
	if err := json.Unmarshal(text, &record); err != nil {
		r.t.Fatal(err)
	}
	return record.Supervisor.PID
}

// A prepared task has the limits, the devices and the program of its start.
func TestPrepare_TheStartCompletesIt(t *testing.T) {
	r := newFixture(t)
	cfg := r.task("t", `
		echo "$LATE"
		(exec 3<$DEVICE) && echo opened
		(exec 3>$DEVICE) 2>/dev/null && echo written
		while ! test -e /local/go; do sleep 0.01; done
		exit 7`)
	pid := r.prepare(r.ctx(), cfg)
	record, err := os.Stat(filepath.Join(r.DirOf(cfg.ID), "task.json"))
	if err != nil {
		t.Fatal(err)
	}
	cfg.Env = map[string]string{"LATE": "of a hook", "DEVICE": "/dev/fuse"}
	cfg.Mounts = []driver.Mount{{HostPath: "/dev/fuse", TaskPath: "/dev/fuse", Device: true, Permissions: "r"}}
	if h := r.start(cfg); h.PID != pid {
		t.Errorf("the task has the supervisor %d, prepared was %d", h.PID, pid)
	}
	r.awaitOutput(cfg, "opened")
	now, err := os.Stat(filepath.Join(r.DirOf(cfg.ID), "task.json"))
	if err != nil || !os.SameFile(record, now) {
		t.Errorf("the start has written another record (%v)", err)
	}
	if s, err := r.Stats(r.ctx(), cfg.ID); err != nil || s.PIDs == 0 {
		t.Errorf("got the stats %+v, %v, want processes", s, err)
	}
	if err := os.WriteFile(cfg.Dirs.Local+"/go", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if res := r.wait(cfg); res.ExitCode != 7 {
		t.Errorf("got the end %+v, want the exit code 7", res)
	}
	if out := r.readLog(cfg, "stdout"); out != "of a hook\nopened\n" {
		t.Errorf("got the output %q", out)
	}
}

// The allocation has changed since.
func TestPrepare_AnotherStartReplacesIt(t *testing.T) {
	r := newFixture(t)
	cfg := r.task("t", `exit 7`)
	pid := r.prepare(r.ctx(), cfg)
	cfg.Resources.MemoryMB++
	if h := r.start(cfg); h.PID == pid {
		t.Error("the task has the limits of another")
	}
	r.awaitEnd(pid)
	if res := r.wait(cfg); res.ExitCode != 7 {
		t.Errorf("got the end %+v, want the exit code 7", res)
	}
}

// It is not needed any more, or the agent stops. Then it also ends if nothing destroys it.
func TestPrepare_EndsWithItsContext(t *testing.T) {
	r := newFixture(t)
	for name, destroy := range map[string]bool{"destroyed": true, "left": false} {
		cfg := r.task(name, `exit 7`)
		ctx, cancel := context.WithCancel(r.ctx())
		pid := r.prepare(ctx, cfg)
		if destroy {
			r.destroy(cfg)
			if exists(fmt.Sprintf("/proc/%d", pid)) {
				t.Error("the supervisor is left")
			}
			cancel()
			continue
		}
		cancel()
		r.awaitEnd(pid)
		if _, err := r.Wait(r.ctx(), cfg.ID); !structs.IsKind(err, structs.KindNotFound) {
			t.Errorf("wait: got %v, want not-found", err)
		}
		r.start(cfg)
		if res := r.wait(cfg); res.ExitCode != 7 {
			t.Errorf("got the end %+v, want the exit code 7", res)
		}
	}
}

// The agent is killed. The supervisor ends, and the next agent removes the rest: whether it comes before or
// after that, and whether the supervisor is killed, too.
func TestPrepare_EndsWithAKilledAgent(t *testing.T) {
	r := newFixture(t)
	for name, rest := range map[string]func(pid int){
		"at once":                func(int) {},
		"later":                  r.awaitEnd,
		"killed":                 func(pid int) { _ = unix.Kill(pid, unix.SIGKILL) },
		"killed, and it is gone": func(pid int) { _ = unix.Kill(pid, unix.SIGKILL); r.awaitEnd(pid) },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := r.task("t", `exit 7`)
			agent, _ := r.runAgent(agentOrder{Dir: r.dir, Task: cfg, Prepare: true})
			pid := r.awaitPrepared(cfg)
			r.killAgent(agent)
			rest(pid)
			next := r.nextAgent()
			err := next.Recover(r.ctx(), &driver.Handle{Driver: "exec", TaskID: cfg.ID})
			if !structs.IsKind(err, structs.KindNotFound) {
				t.Errorf("recover: got %v, want not-found", err)
			}
			r.checkClean(cfg)
			r.awaitEnd(pid)
		})
	}
}

// The supervisor of a prepared task fails to open the logs, or is killed. The start of the task returns that
// and removes the rest, and the next start succeeds.
func TestPrepare_ItsFailureIsThatOfTheStart(t *testing.T) {
	r := newFixture(t)
	cfg := r.task("t", `exit 7`)
	logs := cfg.Dirs.Logs
	cfg.Dirs.Logs = filepath.Join(r.dir, "not-there", "logs")
	if err := r.Prepare(r.ctx(), cfg); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Start(r.ctx(), cfg); err == nil || !contains(err.Error(), "opening the task's logs") {
		t.Errorf("start: got %v, want the failure to open the logs", err)
	}
	r.checkClean(cfg)
	cfg.Dirs.Logs = logs
	pid := r.prepare(r.ctx(), cfg)
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_, err := r.Start(r.ctx(), cfg)
	if err == nil || !contains(err.Error(), "ended before the task was started") {
		t.Errorf("start: got %v, want the end of the supervisor", err)
	}
	r.checkClean(cfg)
	if res, _ := r.run(cfg); res.ExitCode != 7 {
		t.Errorf("got the end %+v, want the exit code 7", res)
	}
}

func TestPrepare_RejectsARunningTask(t *testing.T) {
	r := newFixture(t)
	cfg := r.task("t", `sleep 1000`)
	h := r.start(cfg)
	if err := r.Prepare(r.ctx(), cfg); !structs.IsKind(err, structs.KindConflict) {
		t.Errorf("prepare: got %v, want a conflict", err)
	}
	if err := unix.Kill(h.PID, 0); err != nil {
		t.Errorf("the task was ended: %v", err)
	}
}
