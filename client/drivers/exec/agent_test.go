package exec_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/client/driver"
	"berth/client/drivers/exec"
	"berth/structs"
)

// agentOrder is the order of a test to the agent that it will kill.
type agentOrder struct {
	Dir  string
	Task *driver.TaskConfig
}

// agentMain is that agent: it starts the task, prints its handle, and waits for its end.
func agentMain() {
	var o agentOrder
	if err := json.NewDecoder(os.Stdin).Decode(&o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	d := exec.New(exec.DefaultConfig(), executorConfig(o.Dir))
	h, err := d.Start(context.Background(), o.Task)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(h)
	}
	if err == nil {
		_, err = d.Wait(context.Background(), o.Task.ID)
	}
	fmt.Fprintln(os.Stderr, "the agent ended by itself:", err)
	os.Exit(1)
}

// agent starts a task from another process.
func (r *fixture) agent(cfg *driver.TaskConfig) (*osexec.Cmd, *driver.Handle) {
	r.t.Helper()
	order, err := json.Marshal(agentOrder{Dir: r.dir, Task: cfg})
	if err != nil {
		r.t.Fatal(err)
	}
	cmd := osexec.Command(os.Args[0], "agent")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { r.killAgent(cmd) })
	if _, err := in.Write(order); err != nil {
		r.t.Fatal(err)
	}
	h := &driver.Handle{}
	if err := json.NewDecoder(out).Decode(h); err != nil {
		r.t.Fatalf("the agent did not start the task: %v", err)
	}
	return cmd, h
}

func (r *fixture) killAgent(cmd *osexec.Cmd) {
	if cmd.ProcessState == nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}

const counter = `trap 'exit 11' TERM; echo up; i=0; while :; do i=$((i+1)); echo line $i; sleep 0.005; done`

// The agent is killed. The task continues, its log has no gap, and another agent recovers it and learns its
// end.
func TestRecover_AfterAKilledAgent(t *testing.T) {
	r := newFixture(t)
	cfg := r.task("t", counter)
	agent, h := r.agent(cfg)
	r.said(cfg, "line 3\n")
	r.killAgent(agent)
	before := len(r.log(cfg, "stdout"))
	next := r.again()
	if err := next.Recover(r.ctx(), h); err != nil {
		t.Fatal(err)
	}
	if err := next.Recover(r.ctx(), h); err != nil { // idempotent
		t.Fatal(err)
	}
	r.until("the log grows", func() bool { return len(r.log(cfg, "stdout")) > before+100 })
	if s, err := next.Stats(r.ctx(), cfg.ID); err != nil || s.PIDs == 0 {
		t.Fatalf("stats are %+v, %v", s, err)
	}
	if err := next.Stop(r.ctx(), cfg.ID, "", patience); err != nil {
		t.Fatal(err)
	}
	if res, err := next.Wait(r.ctx(), cfg.ID); err != nil || res.ExitCode != 11 {
		t.Fatalf("ended with %+v, %v", res, err)
	}
	want := "up\n"
	for i := 1; len(want) < len(r.log(cfg, "stdout")); i++ {
		want += "line " + strconv.Itoa(i) + "\n"
	}
	if got := r.log(cfg, "stdout"); got != want {
		t.Fatalf("the log has a gap: %q", got)
	}
	if err := next.Destroy(r.ctx(), cfg.ID); err != nil {
		t.Fatal(err)
	}
	r.clean(cfg)
}

// The task ends while there is no agent.
func TestRecover_AnEndBetweenAgents(t *testing.T) {
	r := newFixture(t)
	cfg := r.task("t", `echo up; while ! test -e /local/go; do sleep 0.01; done; exit 42`)
	agent, h := r.agent(cfg)
	r.said(cfg, "up")
	r.killAgent(agent)
	if err := os.WriteFile(cfg.Dirs.Local+"/go", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	r.gone(h.PID)
	for _, h := range []*driver.Handle{h, {Driver: "exec", TaskID: cfg.ID}} { // also if the handle was lost
		next := r.again()
		if err := next.Recover(r.ctx(), h); err != nil {
			t.Fatal(err)
		}
		if res, err := next.Wait(r.ctx(), cfg.ID); err != nil || *res != (driver.ExitResult{ExitCode: 42}) {
			t.Fatalf("ended with %+v, %v", res, err)
		}
	}
}

// The agent dies before it has recorded the handle. The next agent starts the task again.
func TestStart_ReplacesAnUnrecoveredTask(t *testing.T) {
	r := newFixture(t)
	cfg := r.task("t", `echo up $$; exec sleep 1000`)
	agent, h := r.agent(cfg)
	r.said(cfg, "up")
	r.killAgent(agent)
	next := r.again()
	if _, err := next.Start(r.ctx(), cfg); err != nil {
		t.Fatal(err)
	}
	r.gone(h.PID)
	if err := next.Destroy(r.ctx(), cfg.ID); err != nil {
		t.Fatal(err)
	}
	r.clean(cfg)
}

// The supervisor is killed: no process of the task continues, and its end is unknown.
func TestRecover_AfterAKilledSupervisor(t *testing.T) {
	r := newFixture(t)
	for _, there := range []bool{true, false} { // with an agent that waits, and before one recovers
		cfg := r.task(fmt.Sprint(there), `echo up; setsid sleep 1000 & exec sleep 1000`)
		h := r.start(cfg)
		r.said(cfg, "up")
		leader := r.initOf(h.PID)
		if err := unix.Kill(h.PID, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if there {
			if res := r.wait(cfg); res.Err == "" || res.Successful() {
				t.Fatalf("ended with %+v", res)
			}
		} else if err := r.again().Recover(r.ctx(), h); !structs.IsKind(err, structs.KindNotFound) {
			t.Fatalf("recovered: %v", err)
		}
		if exists(filepath.Join("/proc", strconv.Itoa(leader), "exe")) {
			t.Fatal("the task's pid 1 lives")
		}
		r.destroy(cfg)
	}
}

// Pid 1 of the sandbox is killed from outside: the task ended with it.
func TestTask_EndsWithItsInit(t *testing.T) {
	r := newFixture(t)
	cfg := r.task("t", `echo up; exec sleep 1000`)
	h := r.start(cfg)
	r.said(cfg, "up")
	if err := unix.Kill(r.initOf(h.PID), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if res := r.wait(cfg); res != (driver.ExitResult{Signal: 9}) {
		t.Fatalf("ended with %+v", res)
	}
}

// A supervisor that receives SIGTERM, as at a shutdown of the machine, stops its task properly.
func TestSupervisor_TerminatedStopsTheTask(t *testing.T) {
	r := newFixture(t)
	cfg := r.task("t", counter)
	h := r.start(cfg)
	r.said(cfg, "line 2\n")
	if err := unix.Kill(h.PID, unix.SIGHUP); err != nil { // no reason to end
		t.Fatal(err)
	}
	if err := unix.Kill(h.PID, unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if res := r.wait(cfg); res.ExitCode != 11 {
		t.Fatalf("ended with %+v", res)
	}
}

// After a reboot the recorded pids have no meaning.
func TestRecover_AfterAReboot(t *testing.T) {
	r := newFixture(t)
	cfg := r.task("t", `exit 0`)
	h := r.start(cfg)
	r.wait(cfg)
	dir := r.DirOf(cfg.ID)
	bystander := osexec.Command("sleep", "1000")
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.killAgent(bystander) })
	record := fmt.Sprintf(`{"TaskID":%q,"Boot":"another","Supervisor":{"PID":%d},"Task":{"PID":%d}}`, cfg.ID,
		bystander.Process.Pid, bystander.Process.Pid)
	if err := os.WriteFile(filepath.Join(dir, "task.json"), []byte(record), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "exit.json")); err != nil {
		t.Fatal(err)
	}
	if err := r.again().Recover(r.ctx(), h); !structs.IsKind(err, structs.KindNotFound) {
		t.Fatalf("recovered: %v", err)
	}
	if err := bystander.Process.Signal(unix.Signal(0)); err != nil {
		t.Fatalf("the wrong process was killed: %v", err)
	}
	r.clean(cfg)
}

// A supervisor that does not answer in time may be slow. Its task continues, and is found when it answers.
func TestRecover_FromAStuckSupervisor(t *testing.T) {
	r := newFixture(t)
	cfg := r.task("t", `sleep 1000`)
	h := r.start(cfg)
	stuck := func(sig unix.Signal) {
		t.Helper()
		if err := unix.Kill(h.PID, sig); err != nil {
			t.Fatal(err)
		}
	}
	stuck(unix.SIGSTOP)
	t.Cleanup(func() { _ = unix.Kill(h.PID, unix.SIGCONT) })
	awaitStopped(t, h.PID)
	next := r.again()
	ctx, cancel := context.WithTimeout(r.ctx(), 200*time.Millisecond)
	defer cancel()
	if err := next.Recover(ctx, h); !structs.IsKind(err, structs.KindTimeout) {
		t.Fatalf("recovered: %v", err)
	}
	stuck(unix.SIGCONT)
	if err := next.Recover(r.ctx(), h); err != nil {
		t.Fatalf("the task is lost: %v", err)
	}
	if _, err := next.Stats(r.ctx(), cfg.ID); err != nil {
		t.Fatal(err)
	}
}

// A handle of another version is not guessed at.
func TestRecover_RefusesAForeignHandle(t *testing.T) {
	r := newFixture(t)
	err := r.Recover(r.ctx(), &driver.Handle{Driver: "exec", TaskID: "x", Version: 99,
		State: []byte("/no-such")})
	if !structs.IsKind(err, structs.KindNotFound) || !contains(err.Error(), "99") {
		t.Fatalf("recovered: %v", err)
	}
}

// The path of a data directory may be longer than that of a socket may be.
func TestStart_InALongDataDirectory(t *testing.T) {
	r := newFixture(t)
	for range 4 {
		r.dir = filepath.Join(r.dir, "a-directory-with-quite-a-long-name")
	}
	r = r.again()
	cfg := r.task("t", `exit 2`)
	r.start(cfg)
	if res := r.wait(cfg); res.ExitCode != 2 {
		t.Fatalf("ended with %+v", res)
	}
}

// initOf finds the child of a supervisor.
func (r *fixture) initOf(supervisor int) int {
	r.t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", supervisor))
	for _, f := range threads {
		var pid int
		if b, err := os.ReadFile(f); err == nil {
			if _, err := fmt.Sscan(string(b), &pid); err == nil {
				return pid
			}
		}
	}
	r.t.Fatalf("the supervisor has no child (%v)", err)
	return 0
}

// gone waits until a process has ended; a zombie has.
func (r *fixture) gone(pid int) {
	r.t.Helper()
	r.until("the process ends", func() bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		return err != nil || len(b) == 0
	})
}

// awaitStopped waits until every thread of a process that was sent SIGSTOP has stopped: until then one of
// them may still answer.
func awaitStopped(t *testing.T, pid int) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for running := true; running; {
		if time.Now().After(deadline) {
			t.Fatalf("process %d does not stop", pid)
		}
		running = false
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil || len(threads) == 0 {
			t.Fatalf("process %d is gone: %v", pid, err)
		}
		for _, file := range threads {
			stat, err := os.ReadFile(file)
			if err != nil {
				continue // a thread that has ended
			}
			_, after, _ := strings.Cut(string(stat), ") ")
			running = running || !strings.HasPrefix(after, "T")
		}
		runtime.Gosched()
	}
}
