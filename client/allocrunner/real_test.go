package allocrunner

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/client/allocrunner/lifecycle"
	"berth/client/drivers/drivertest"
	"berth/client/drivers/executor"
	"berth/client/drivers/rawexec"
	"berth/structs"
)

// shortenDir gives the fixture a directory with a short path: sockets of processes are below it.
func (fx *fixture) shortenDir() {
	fx.t.Helper()
	dir, err := os.MkdirTemp("/tmp", "b")
	if err != nil {
		fx.t.Fatal(err)
	}
	fx.t.Cleanup(func() { _ = os.RemoveAll(dir) })
	fx.dir = dir
}

// realAgent is an agent whose tasks are processes. The servers have been contacted.
func (fx *fixture) realAgent() *agent {
	fx.t.Helper()
	a := fx.agent()
	cfg := rawexec.Config{Enabled: true}
	cfg.CgroupParent = "no\nsuch/" + strings.Repeat("x", 300) // without cgroups the test needs no privileges
	a.deps.DeniedUsers = nil
	a.deps.Drivers = drivertest.Set{"raw_exec": rawexec.New(cfg, executor.Config{
		Dir:     filepath.Join(fx.dir, "ex"),
		Command: []string{os.Args[0], "executor"},
	})}
	close(a.contacted)
	return a
}

// processes makes the tasks of an allocation processes that write a log: first and after end when the file go
// is there, late at once, and the others when they are stopped.
func processes(alloc *structs.Allocation) *structs.Allocation {
	for _, task := range alloc.Job.TaskGroups[0].Tasks {
		wait := "while :; do sleep 0.05; done"
		switch task.Name {
		case "first", "after":
			wait = fmt.Sprintf("while [ ! -e go-%s ]; do sleep 0.05; done; echo %s ends >> log", task.Name, task.Name)
		case "late":
			wait = "echo late ends >> log"
		}
		task.Driver = "raw_exec"
		task.Config = map[string]any{"command": "/bin/sh", "args": []any{"-c", fmt.Sprintf(`
			cd "$NOMAD_ALLOC_DIR/data"
			trap 'echo %[1]s ends >> log; exit 0' INT
			trap 'echo %[1]s sees USR1 >> log' USR1
			echo %[1]s begins >> log
			%[2]s`, task.Name, wait)}}
	}
	return alloc
}

// processLog is the log of the tasks of processes.
type processLog struct {
	t   *testing.T
	dir string
}

func (l processLog) lines() []string {
	text, _ := os.ReadFile(filepath.Join(l.dir, "log"))
	return strings.Split(string(text), "\n")
}

func (l processLog) await(line string, times int) {
	l.t.Helper()
	awaitTrue(l.t, func() bool {
		n := 0
		for _, found := range l.lines() {
			if found == line {
				n++
			}
		}
		return n == times
	}, func() string { return fmt.Sprintf("the log is %q, want %q in it %d times", l.lines(), line, times) })
}

// awaitTrue waits for a condition. fault describes its absence.
func awaitTrue(t *testing.T, holds func() bool, fault func() string) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(fault())
		}
	}
}

// awaitState waits until the runner knows tasks in a state. An agent that stops before takes the start of a
// process back.
func awaitState(r *Runner, t *testing.T, state string, names ...string) {
	t.Helper()
	for _, name := range names {
		awaitTrue(t, func() bool { return r.ClientState().TaskStates[name].State == state },
			func() string { return fmt.Sprintf("%s is not %s: %v", name, state, r.ClientState().TaskStates[name]) })
	}
}

// wantOrder checks that the last ones of lines are in an order.
func (l processLog) wantOrder(lines ...string) {
	l.t.Helper()
	all := l.lines()
	slices.Reverse(all)
	for i := range len(lines) - 1 {
		if slices.Index(all, lines[i]) < slices.Index(all, lines[i+1]) {
			l.t.Errorf("%q is not before %q in %q", lines[i], lines[i+1], l.lines())
		}
	}
}

func (l processLog) create(name string) {
	l.t.Helper()
	if err := os.WriteFile(filepath.Join(l.dir, name), nil, 0o600); err != nil {
		l.t.Fatal(err)
	}
}

func TestLifecycle_OfProcesses(t *testing.T) {
	fx := newFixture(t)
	fx.shortenDir()
	a := fx.realAgent()
	r := a.new(processes(lifecycleAlloc()))
	defer func() {
		r.Destroy()
		<-r.Reached(lifecycle.Ended)
		a.stop()
	}()
	restartAgent := func() {
		a.stop()
		a = fx.realAgent()
		r = a.restore()[0]
	}
	log := processLog{t, filepath.Join(r.Dir(), "alloc", "data")}
	log.await("first begins", 1)
	log.await("side begins", 1)
	awaitState(r, t, structs.TaskRunning, "first", "side")
	restartAgent()
	log.create("go-first")
	log.await("late ends", 1)
	log.wantOrder("first ends", "main begins", "late begins")
	awaitState(r, t, structs.TaskDead, "late")
	awaitState(r, t, structs.TaskRunning, "main", "beside")
	restartAgent()
	<-r.Reached(lifecycle.Attached)
	if err := r.SignalTasks(t.Context(), "main", "USR1"); err != nil {
		t.Error(err)
	}
	log.await("main sees USR1", 1)
	if err := r.RestartTasks("main"); err != nil {
		t.Error(err)
	}
	log.await("main begins", 2)
	log.await("side begins", 1)
	awaitState(r, t, structs.TaskRunning, "main")
	if err := r.RestartAll(); err != nil {
		t.Error(err)
	}
	log.await("late ends", 2)
	awaitState(r, t, structs.TaskRunning, "main", "beside")
	log.wantOrder("main ends", "side ends", "first begins", "first ends", "main begins", "late begins")
	r.Stop("enough")
	log.await("after begins", 1)
	log.wantOrder("main ends", "side ends", "after begins")
	awaitState(r, t, structs.TaskRunning, "after")
	restartAgent()
	log.create("go-after")
	log.await("after ends", 1)
	<-r.Unwound()
	log.await("after begins", 1)
	if u := a.last(); u.ClientStatus != structs.AllocComplete {
		t.Errorf("the allocation is %s: %+v", u.ClientStatus, u.TaskStates)
	}
}
