package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"berth/structs"
)

// lifecycleTask is a task that writes its name into the log of its allocation as it begins and ends.
type lifecycleTask struct {
	name, lifecycle string
	until           string // a file in the directory of the log, or "" to run until it is stopped
}

func (x lifecycleTask) hcl() string {
	wait := "while :; do sleep 0.1; done"
	if x.until != "" {
		wait = fmt.Sprintf("while [ ! -e %s ]; do sleep 0.1; done; echo %s ends >> log", x.until, x.name)
	}
	return fmt.Sprintf(`
    task %q {
      driver       = "raw_exec"
      kill_timeout = "20s"
      %s
      config {
        command = "/bin/sh"
        args    = ["-c", <<-EOT
          cd "$NOMAD_ALLOC_DIR/data"
          trap 'echo %s ends >> log; exit 0' INT
          trap 'echo %s sees USR1 >> log' USR1
          echo %s begins >> log
          %s
EOT
        ]
      }
      resources {
        cpu    = 20
        memory = 16
      }
    }
`, x.name, x.lifecycle, x.name, x.name, x.name, wait)
}

func lifecycleJob() string {
	var tasks strings.Builder
	for _, x := range []lifecycleTask{
		{"after", `lifecycle { hook = "poststop" }`, "bye"},
		{"late", `lifecycle { hook = "poststart" }`, "."},
		{"main", "", ""},
		{"side", "lifecycle {\n hook = \"prestart\"\n sidecar = true\n}", ""},
		{"first", `lifecycle { hook = "prestart" }`, "go"},
	} {
		tasks.WriteString(x.hcl())
	}
	return "job \"life\" {\n  group \"g\" {" + tasks.String() + "  }\n}\n"
}

// lifecycle has the log of the allocation.
type lifecycle struct {
	*agent
	alloc string
	dir   string
}

func (x lifecycle) lines() []string {
	text, _ := os.ReadFile(filepath.Join(x.dir, "log"))
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// await waits until the log has a line so many times.
func (x lifecycle) await(line string, times int) {
	x.t.Helper()
	eventually(x.t, fmt.Sprintf("%q, %d times", line, times), func() error {
		found := 0
		for _, l := range x.lines() {
			if l == line {
				found++
			}
		}
		if found != times {
			alloc, err := get[*structs.AllocListStub](x.agent, "/v1/allocation/"+x.alloc)
			if err != nil {
				return err
			}
			return fmt.Errorf("the log is %q%s", x.lines(), events(alloc))
		}
		return nil
	})
}

// wantOrder checks that the last ones of some lines are in an order.
func (x lifecycle) wantOrder(lines ...string) {
	x.t.Helper()
	all := x.lines()
	slices.Reverse(all)
	for i := range len(lines) - 1 {
		before := slices.Index(all, lines[i])
		after := slices.Index(all, lines[i+1])
		if before < 0 || after < 0 || before < after {
			x.t.Errorf("%q is not before %q in %q", lines[i], lines[i+1], x.lines())
		}
	}
}

// awaitStarts waits until the servers know that tasks were started in an order.
func (x lifecycle) awaitStarts(tasks ...string) {
	x.t.Helper()
	eventually(x.t, fmt.Sprint("starts in the order ", tasks), func() error {
		row, err := get[*structs.AllocListStub](x.agent, "/v1/allocation/"+x.alloc)
		if err != nil {
			return err
		}
		for i := range len(tasks) - 1 {
			before := row.TaskStates[tasks[i]].StartedAt
			after := row.TaskStates[tasks[i+1]].StartedAt
			if !before.Before(after) {
				return fmt.Errorf("%s was started at %s, %s at %s", tasks[i], before, tasks[i+1], after)
			}
		}
		return nil
	})
}

func (x lifecycle) create(name string) {
	x.t.Helper()
	if err := os.WriteFile(filepath.Join(x.dir, name), nil, 0o600); err != nil {
		x.t.Fatal(err)
	}
}

// restartAgent kills the agent and starts it again.
func (x lifecycle) restartAgent() {
	x.t.Helper()
	x.kill()
	x.start()
}

// TestLifecycle_RunsTasksInOrder kills the agent in each phase of an allocation: no task starts twice.
func TestLifecycle_RunsTasksInOrder(t *testing.T) {
	t.Parallel()
	a := newAgent(t, "one", "-server", "-client").allowRaw()
	a.start()
	a.must("job", "run", "-detach", a.writeFile("life.hcl", lifecycleJob()))
	alloc := a.awaitRunning("life", 1)[0].ID
	x := lifecycle{a, alloc, a.data("alloc", alloc, "alloc", "data")}
	x.await("first begins", 1)
	x.await("side begins", 1)
	x.restartAgent()
	x.create("go")
	x.await("late ends", 1)
	x.await("main begins", 1) // its program may begin after that of late, which began after its start
	x.wantOrder("side begins", "main begins")
	x.wantOrder("first ends", "main begins")
	x.wantOrder("first ends", "late begins")
	x.awaitStarts("first", "main", "late")
	x.restartAgent()
	x.awaitRunning("life", 1)

	x.must("alloc", "signal", "-s", "usr1", alloc, "main")
	x.await("main sees USR1", 1)
	x.must("alloc", "restart", alloc, "main")
	x.await("main begins", 2)
	for _, line := range []string{"first begins", "side begins", "late begins", "main sees USR1"} {
		x.await(line, 1)
	}
	x.mustFail(5, []string{"is dead, not running"}, "alloc", "restart", alloc, "first")
	x.must("alloc", "restart", "-all-tasks", alloc)
	x.await("late ends", 2)
	x.await("main begins", 3)
	x.await("side begins", 2)
	x.wantOrder("main ends", "side ends", "first begins", "first ends", "main begins")
	x.wantOrder("first ends", "late begins")
	x.awaitStarts("first", "main", "late")
	x.await("after begins", 0)

	x.must("job", "stop", "-detach", "life")
	x.await("after begins", 1)
	x.wantOrder("main ends", "side ends", "after begins")
	x.restartAgent()
	x.create("bye")
	x.await("after ends", 1)
	x.await("after begins", 1)
	eventually(t, "the allocation is complete", func() error {
		got, err := get[*structs.AllocListStub](a, "/v1/allocation/"+alloc)
		if err != nil {
			return err
		}
		if got.ClientStatus != structs.AllocComplete {
			return fmt.Errorf("it is %s%s", got.ClientStatus, events(got))
		}
		return nil
	})
	x.mustEventually("alloc", "gc", alloc) // it releases its network and directories first
	eventually(t, "its directory is gone", func() error {
		_, err := os.Stat(a.data("alloc", alloc))
		if os.IsNotExist(err) {
			return nil
		}
		return fmt.Errorf("it is there: %v", err)
	})
}

// TestLifecycle_ExampleRuns runs the example to the end of its poststop task.
func TestLifecycle_ExampleRuns(t *testing.T) {
	t.Parallel()
	a := newAgent(t, "one", "-server", "-client")
	a.start()
	a.must("job", "run", "-detach", example(t, "lifecycle.hcl"))
	alloc := a.awaitRunning("lifecycle", 1)[0].ID
	eventually(t, "the site has its page", func() error {
		out, err := a.run("alloc", "logs", alloc, "site")
		if err != nil || out != "prepared\n" {
			return fmt.Errorf("got %q, %v", out, err)
		}
		return nil
	})
	page := a.data("alloc", alloc, "alloc", "data", "page")
	a.must("job", "stop", "lifecycle")
	if _, err := os.Stat(page); !os.IsNotExist(err) {
		t.Errorf("the poststop task has not run: %v", err)
	}
}
