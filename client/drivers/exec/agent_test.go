package exec_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	osexec "os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/client/drivers/cgroups"
	"berth/client/drivers/driver"
	"berth/client/drivers/exec"
	"berth/structs"
	"berth/test/kit"
)

// agentOrder is the input of an agent process that a test kills.
type agentOrder struct {
	Dir  string
	Task *driver.TaskConfig

	Prepare bool     // only prepare the task
	Cover   []string // directories that get a file system with a file, in a mount namespace of the agent
}

// cover mounts file systems on the directories.
func cover(dirs []string) {
	for _, dir := range dirs {
		err := unix.Mount("covered", dir, "tmpfs", 0, "size=64k")
		if err == nil {
			err = os.WriteFile(dir+"/of-the-host", nil, 0o644)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// agentMain is the agent process: it starts the task, prints the handle, and waits for the end of the task.
// Or it prepares the task.
func agentMain() {
	var o agentOrder
	if err := json.NewDecoder(os.Stdin).Decode(&o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	cover(o.Cover)
	d := exec.New(exec.DefaultConfig(), executorConfig(o.Dir))
	if o.Prepare {
		if err := d.Prepare(context.Background(), o.Task); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		_, _ = io.Copy(io.Discard, os.Stdin) // until it is killed
	}
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

// startInAgent starts a task from another process.
func (r *fixture) startInAgent(cfg *driver.TaskConfig) (*osexec.Cmd, *driver.Handle) {
	r.t.Helper()
	cmd, out := r.runAgent(agentOrder{Dir: r.dir, Task: cfg})
	h := &driver.Handle{}
	if err := json.NewDecoder(out).Decode(h); err != nil {
		r.t.Fatalf("the agent did not start the task: %v", err)
	}
	return cmd, h
}

// runAgent starts an agent process and returns its output. The end of the test kills it.
func (r *fixture) runAgent(o agentOrder) (*osexec.Cmd, io.Reader) {
	r.t.Helper()
	order, err := json.Marshal(o)
	if err != nil {
		r.t.Fatal(err)
	}
	cmd := osexec.Command(kit.PlainProgram(), "agent")
	cmd.Stderr = os.Stderr
	if len(o.Cover) > 0 {
		cmd.SysProcAttr = &unix.SysProcAttr{Unshareflags: unix.CLONE_NEWNS} // its mounts are private
	}
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
	return cmd, out
}

func (r *fixture) killAgent(cmd *osexec.Cmd) {
	if cmd.ProcessState == nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}

const counter = `trap 'exit 11' INT TERM; echo up; i=0; while :; do i=$((i+1)); echo line $i; sleep 0.005; done`

// The agent is killed. The task continues, its log has no gap, and another agent recovers it and learns its
// end.
func TestRecover_AfterAKilledAgent(t *testing.T) {
	r := newFixture(t)
	cfg := r.task("t", counter)
	agent, h := r.startInAgent(cfg)
	r.awaitOutput(cfg, "line 3\n")
	r.killAgent(agent)
	before := len(r.readLog(cfg, "stdout"))
	next := r.nextAgent()
	if err := next.Recover(r.ctx(), h); err != nil {
		t.Fatal(err)
	}
	if err := next.Recover(r.ctx(), h); err != nil { // idempotent
		t.Fatal(err)
	}
	r.waitUntil("the log grows", func() bool { return len(r.readLog(cfg, "stdout")) > before+100 })
	if s, err := next.Stats(r.ctx(), cfg.ID); err != nil || s.PIDs == 0 {
		t.Fatalf("got the stats %+v, %v, want processes", s, err)
	}
	if err := next.Stop(r.ctx(), cfg.ID, "", patience); err != nil {
		t.Fatal(err)
	}
	if res, err := next.Wait(r.ctx(), cfg.ID); err != nil || res.ExitCode != 11 {
		t.Fatalf("got the end %+v, %v, want the exit code 11", res, err)
	}
	want := "up\n"
	for i := 1; len(want) < len(r.readLog(cfg, "stdout")); i++ {
		want += "line " + strconv.Itoa(i) + "\n"
	}
	if got := r.readLog(cfg, "stdout"); got != want {
		t.Fatalf("got the log %q, want no gap: %q", got, want)
	}
	if err := next.Destroy(r.ctx(), cfg.ID, nil); err != nil {
		t.Fatal(err)
	}
	r.checkClean(cfg)
}

// The task ends while there is no agent.
func TestRecover_AnEndBetweenAgents(t *testing.T) {
	r := newFixture(t)
	cfg := r.task("t", `echo up; while ! test -e /local/go; do sleep 0.01; done; exit 42`)
	agent, h := r.startInAgent(cfg)
	r.awaitOutput(cfg, "up")
	r.killAgent(agent)
	if err := os.WriteFile(cfg.Dirs.Local+"/go", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	r.awaitEnd(h.PID)
	lost := &driver.Handle{Driver: "exec", TaskID: cfg.ID}
	for _, h := range []*driver.Handle{h, lost} {
		next := r.nextAgent()
		if err := next.Recover(r.ctx(), h); err != nil {
			t.Fatal(err)
		}
		res, err := next.Wait(r.ctx(), cfg.ID)
		if err != nil || *res != (driver.ExitResult{ExitCode: 42}) {
			t.Fatalf("got the end %+v, %v, want the exit code 42", res, err)
		}
	}
}

// The agent dies before it has recorded the handle. The next agent starts the task again.
func TestStart_ReplacesAnUnrecoveredTask(t *testing.T) {
	r := newFixture(t)
	cfg := r.task("t", `echo up $$; exec sleep 1000`)
	agent, h := r.startInAgent(cfg)
	r.awaitOutput(cfg, "up")
	r.killAgent(agent)
	next := r.nextAgent()
	if _, err := next.Start(r.ctx(), cfg); err != nil {
		t.Fatal(err)
	}
	r.awaitEnd(h.PID)
	if err := next.Destroy(r.ctx(), cfg.ID, nil); err != nil {
		t.Fatal(err)
	}
	r.checkClean(cfg)
}

// The supervisor is killed: no process of the task continues, and its end is unknown.
func TestRecover_AfterAKilledSupervisor(t *testing.T) {
	r := newFixture(t)
	for _, waits := range []bool{true, false} { // with an agent that waits, and before one recovers
		cfg := r.task(fmt.Sprint(waits), `echo up; setsid sleep 1000 & exec sleep 1000`)
		h := r.start(cfg)
		r.awaitOutput(cfg, "up")
		program := r.programOf(h.PID)
		if err := unix.Kill(h.PID, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if waits {
			if res := r.wait(cfg); res.Err == "" || res.Successful() {
				t.Fatalf("got the end %+v, want an unknown one", res)
			}
		} else {
			err := r.nextAgent().Recover(r.ctx(), h)
			if !structs.IsKind(err, structs.KindNotFound) || !contains(err.Error(), "exit status is unknown") {
				t.Fatalf("recover: got %v, want not-found and an unknown end", err)
			}
		}
		if exists(filepath.Join("/proc", strconv.Itoa(program), "exe")) {
			t.Fatal("the task's program still runs")
		}
		r.destroy(cfg)
	}
}

// The program is killed from outside: the other processes of the task end with it.
func TestTask_EndsWithItsProgram(t *testing.T) {
	r := newFixture(t)
	cfg := r.task("t", `setsid sh -c 'trap "" TERM HUP; echo up; sleep 1000' & exec sleep 1000`)
	h := r.start(cfg)
	r.awaitOutput(cfg, "up")
	pids, err := cgroups.Detect().Path("berth", filepath.Base(r.DirOf(cfg.ID))).PIDs()
	if err != nil || len(pids) < 2 {
		t.Fatalf("got the processes %d, %v, want more than the program", pids, err)
	}
	if err := unix.Kill(r.programOf(h.PID), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if res := r.wait(cfg); res != (driver.ExitResult{Signal: 9}) {
		t.Fatalf("got the end %+v, want the signal 9", res)
	}
	for _, pid := range pids {
		if exists(fmt.Sprintf("/proc/%d", pid)) {
			t.Errorf("process %d of the task is left", pid)
		}
	}
}

// The supervisor is pid 1 of the sandbox, and stays among the mounts of the host.
func TestSupervisor_IsPid1OfItsSandbox(t *testing.T) {
	r := newFixture(t)
	cfg := r.task("t", `echo up; exec sleep 1000`)
	h := r.start(cfg)
	r.awaitOutput(cfg, "up")
	program := r.programOf(h.PID)
	others := map[string]int{
		"pid": program,
		"ipc": program,
		"uts": program,
		"mnt": os.Getpid(),
	}
	for kind, common := range others {
		own, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", h.PID, kind))
		if err != nil {
			t.Fatal(err)
		}
		other, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", common, kind))
		if err != nil || own != other {
			t.Errorf("it has the namespace %s, want %s (%v)", own, other, err)
		}
	}
}

// Root in a task, and nobody else, may ask pid 1 to end, as in a container with an init.
func TestSupervisor_EndsAtTheRequestOfTheTask(t *testing.T) {
	r := newFixture(t)
	const ask = `trap 'exit 11' TERM; kill -TERM 1 || exit 12; while :; do sleep 0.01; done`
	for user, want := range map[string]int{"": 11, "nobody": 12} {
		cfg := r.task("t"+user, ask)
		cfg.User = user
		if res, out := r.run(cfg); res.ExitCode != want {
			t.Errorf("user %q: got the end %+v and the output %q, want the code %d", user, res, out, want)
		}
	}
}

// A supervisor that receives SIGTERM, as at a shutdown of the machine, stops its task properly.
func TestSupervisor_TerminatedStopsTheTask(t *testing.T) {
	r := newFixture(t)
	cfg := r.task("t", counter)
	h := r.start(cfg)
	r.awaitOutput(cfg, "line 2\n")
	if err := unix.Kill(h.PID, unix.SIGHUP); err != nil { // no reason to end
		t.Fatal(err)
	}
	if err := unix.Kill(h.PID, unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if res := r.wait(cfg); res.ExitCode != 11 {
		t.Fatalf("got the end %+v, want the exit code 11", res)
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
	pid := bystander.Process.Pid
	record := fmt.Sprintf(
		`{"TaskID":%q,"Boot":"another","Supervisor":{"PID":%d},"Task":{"PID":%d}`, cfg.ID, pid, pid)
	if err := os.WriteFile(filepath.Join(dir, "task.json"), withSum(record), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "exit.json")); err != nil {
		t.Fatal(err)
	}
	err := r.nextAgent().Recover(r.ctx(), h)
	if !structs.IsKind(err, structs.KindNotFound) {
		t.Fatalf("recover: got %v, want not-found", err)
	}
	if err := bystander.Process.Signal(unix.Signal(0)); err != nil {
		t.Fatalf("Recover has killed another process: %v", err)
	}
	r.checkClean(cfg)
}

// A supervisor that does not answer in time may be slow. Its task continues, and is found when it answers.
func TestRecover_FromAStuckSupervisor(t *testing.T) {
	r := newFixture(t)
	cfg := r.task("t", `sleep 1000`)
	h := r.start(cfg)
	signal := func(sig unix.Signal) {
		t.Helper()
		if err := unix.Kill(h.PID, sig); err != nil {
			t.Fatal(err)
		}
	}
	signal(unix.SIGSTOP)
	t.Cleanup(func() { _ = unix.Kill(h.PID, unix.SIGCONT) })
	awaitStopped(t, h.PID)
	next := r.nextAgent()
	ctx, cancel := context.WithTimeout(r.ctx(), 200*time.Millisecond)
	defer cancel()
	if err := next.Recover(ctx, h); !structs.IsKind(err, structs.KindTimeout) {
		t.Fatalf("recover: got %v, want a timeout", err)
	}
	signal(unix.SIGCONT)
	if err := next.Recover(r.ctx(), h); err != nil {
		t.Fatalf("the task is lost: %v", err)
	}
	if _, err := next.Stats(r.ctx(), cfg.ID); err != nil {
		t.Fatal(err)
	}
}

// A task may keep its supervisor from answering. It is killed with its supervisor then.
func TestStop_KillsASupervisorThatDoesNotAnswer(t *testing.T) {
	t.Parallel() // it waits for the answer
	r := newFixture(t)
	cfg := r.task("t", `echo up; exec sleep 1000`)
	h := r.start(cfg)
	r.awaitOutput(cfg, "up")
	program := r.programOf(h.PID)
	if err := unix.Kill(h.PID, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	awaitStopped(t, h.PID)
	if err := r.Stop(r.ctx(), cfg.ID, "SIGTERM", time.Second); err != nil {
		t.Fatal(err)
	}
	if exists(fmt.Sprintf("/proc/%d/exe", program)) {
		t.Error("the program still runs")
	}
	if res := r.wait(cfg); !contains(res.Err, "supervisor was killed") {
		t.Errorf("got the end %+v, want an unknown one", res)
	}
	r.destroy(cfg)
	r.checkClean(cfg)
}

// An agent does not know the state in a handle of another version.
func TestRecover_RejectsAForeignHandle(t *testing.T) {
	r := newFixture(t)
	err := r.Recover(r.ctx(), &driver.Handle{
		Driver:  "exec",
		TaskID:  "x",
		Version: 99,
		State:   []byte("/no-such"),
	})
	if !structs.IsKind(err, structs.KindNotFound) || !contains(err.Error(), "99") {
		t.Fatalf("recover: got %v, want not-found with the version 99", err)
	}
}

// The path of a data directory may be longer than the path of a socket.
func TestStart_InALongDataDirectory(t *testing.T) {
	r := newFixture(t)
	for range 4 {
		r.dir = filepath.Join(r.dir, "a-directory-with-quite-a-long-name")
	}
	r = r.nextAgent()
	cfg := r.task("t", `exit 2`)
	r.start(cfg)
	if res := r.wait(cfg); res.ExitCode != 2 {
		t.Fatalf("got the end %+v, want the exit code 2", res)
	}
}

// programOf finds the child of a supervisor that has one. A child moves to another thread if the one that has
// forked it ends, perhaps to one that has been read already.
func (r *fixture) programOf(supervisor int) (program int) {
	r.t.Helper()
	r.waitUntil("the supervisor has a child", func() bool {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", supervisor))
		if err != nil {
			r.t.Fatal(err)
		}
		for _, f := range threads {
			b, err := os.ReadFile(f)
			if err != nil {
				continue // the thread has ended
			}
			n, _ := fmt.Sscan(string(b), &program)
			if n == 1 {
				return true
			}
		}
		return false
	})
	return program
}

// awaitEnd waits until a process has ended. A zombie has ended.
func (r *fixture) awaitEnd(pid int) {
	r.t.Helper()
	r.waitUntil("the process ends", func() bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		return err != nil || len(b) == 0
	})
}

// awaitStopped waits until all threads of a process have stopped after SIGSTOP. Until then one of them may
// answer.
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
			stopped := strings.HasPrefix(after, "T")
			running = running || !stopped
		}
		runtime.Gosched()
	}
}
