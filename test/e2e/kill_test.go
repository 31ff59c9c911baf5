package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"berth/structs"
)

// taskToKill returns a task that runs until it is stopped.
func taskToKill(driver, name, settings, script string) string {
	return fmt.Sprintf(`
    task %q {
      driver = %q
      %s
      config {
        command = "/bin/sh"
        args    = ["-c", <<-EOT
          %s
          echo ready
          while :; do sleep 0.1; done
EOT
        ]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
`, name, driver, settings, script)
}

// killJob has two tasks that end with a signal, one of them with a kill_signal, one that ignores it, and one
// of another user.
func killJob(driver string) string {
	traps := `for s in INT TERM USR1; do trap "echo got $s; exit 0" $s; done`
	return "job \"kill\" {\n  group \"g\" {" +
		taskToKill(driver, "signal", "kill_signal = \"SIGUSR1\"\n kill_timeout = \"1m\"", traps) +
		taskToKill(driver, "default", `kill_timeout = "1m"`, traps) +
		taskToKill(driver, "deaf", `kill_timeout = "2s"`, "trap '' INT TERM") +
		taskToKill(driver, "nobody", `user = "nobody"`, "id -un") +
		"  }\n}\n"
}

// boundedJob has a task whose kill_timeout is longer than its node allows.
func boundedJob(driver string) string {
	return "job \"bounded\" {\n  group \"g\" {" +
		taskToKill(driver, "bounded", `kill_timeout = "1h"`, "trap '' INT TERM") +
		"  }\n}\n"
}

// writeKillConfig writes a configuration that bounds the kill timeouts.
func (a *agent) writeKillConfig(most string) (path string) {
	return a.writeFile("kill-agent.hcl", fmt.Sprintf(`
client {
  max_kill_timeout = %q
  drivers {
    raw_exec {
      enabled = true
    }
  }
}
`, most))
}

// runUntilReady runs a job until all its tasks are ready, and returns its allocation.
func (a *agent) runUntilReady(job, text string, tasks ...string) (alloc string) {
	a.t.Helper()
	a.must("job", "run", "-detach", a.writeFile(job+".hcl", text))
	alloc = a.awaitRunning(job, 1)[0].ID
	for _, task := range tasks {
		eventually(a.t, task+" is ready", func() error {
			out, err := a.run("alloc", "logs", alloc, task)
			if err == nil && !strings.Contains(out, "ready\n") {
				err = fmt.Errorf("it has written %q", out)
			}
			return err
		})
	}
	return alloc
}

// stopTimed stops a job, and returns the end of its allocation and when the stop began.
func (a *agent) stopTimed(job, alloc string) (end structs.Allocation, begin time.Time) {
	a.t.Helper()
	begin = time.Now()
	a.must("job", "stop", job)
	if err := json.Unmarshal([]byte(a.must("alloc", "status", "-json", alloc)), &end); err != nil {
		a.t.Fatal(err)
	}
	return end, begin
}

// The node bounds the last of the kill timeouts.
func TestKill_SignalTimeoutAndUserOfEachDriver(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"exec", "raw_exec"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			a := newAgent(t, "kill-"+strings.ReplaceAll(driver, "_", "-"), "-server", "-client")
			a.args = append(a.args, "-config", a.writeKillConfig("1m"))
			if err := os.Chmod(a.dir, 0o711); err != nil { // nobody enters it
				t.Fatal(err)
			}
			a.start()
			id := a.runUntilReady("kill", killJob(driver), "signal", "default", "deaf", "nobody")
			if out := a.must("alloc", "logs", id, "nobody"); !strings.HasPrefix(out, "nobody\n") {
				t.Errorf("the user is %q", out)
			}
			end, begin := a.stopTimed("kill", id)
			for task, signal := range map[string]string{"signal": "USR1", "default": "INT"} {
				if out := a.must("alloc", "logs", id, task); !strings.HasSuffix(out, "got "+signal+"\n") {
					t.Errorf("%s has written %q", task, out)
				}
				for _, e := range end.TaskStates[task].Events {
					if e.Type == structs.TaskEventTerminated && (e.ExitCode != 0 || e.Signal != 0) {
						t.Errorf("%s did not end by itself: %+v", task, e)
					}
				}
			}
			if took := end.TaskStates["deaf"].FinishedAt.Sub(begin); took < 2*time.Second {
				t.Errorf("deaf ended after %s", took)
			}

			a.stop()
			a.writeKillConfig("4s")
			a.start()
			id = a.runUntilReady("bounded", boundedJob(driver), "bounded")
			end, begin = a.stopTimed("bounded", id)
			took := time.Since(begin)
			bounded := end.TaskStates["bounded"].FinishedAt.Sub(begin)
			if bounded < 4*time.Second || took < bounded || took > 2*time.Minute {
				t.Errorf("bounded ended after %s, its stop took %s, want the 4 s of the node", bounded, took)
			}
		})
	}
}
