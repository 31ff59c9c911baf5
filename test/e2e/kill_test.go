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

// killJob has three tasks: one that ends with its kill_signal, one that ignores it, and one of another user.
func killJob(driver string) string {
	task := func(name, settings, script string) string {
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
	traps := `for s in INT TERM USR1; do trap "echo got $s; exit 0" $s; done`
	return "job \"kill\" {\n  group \"g\" {" +
		task("signal", "kill_signal = \"SIGUSR1\"\n kill_timeout = \"20s\"", traps) +
		task("default", `kill_timeout = "20s"`, traps) +
		task("deaf", `kill_timeout = "2s"`, "trap '' INT TERM") +
		task("bounded", `kill_timeout = "1h"`, "trap '' INT TERM") +
		task("nobody", `user = "nobody"`, "id -un") +
		"  }\n}\n"
}

// The node bounds the last of the kill timeouts.
func TestKill_SignalTimeoutAndUserOfEachDriver(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"exec", "raw_exec"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			a := newAgent(t, "kill-"+strings.ReplaceAll(driver, "_", "-"), "-server", "-client")
			a.args = append(a.args, "-config", a.writeFile("kill-agent.hcl", `
client {
  max_kill_timeout = "4s"
  drivers {
    raw_exec {
      enabled = true
    }
  }
}
`))
			if err := os.Chmod(a.dir, 0o711); err != nil { // nobody enters it
				t.Fatal(err)
			}
			a.start()
			a.must("job", "run", "-detach", a.writeFile("kill.hcl", killJob(driver)))
			id := a.awaitRunning("kill", 1)[0].ID
			tasks := []string{"signal", "default", "deaf", "bounded", "nobody"}
			for _, task := range tasks {
				eventually(t, task+" is ready", func() error {
					if out := a.must("alloc", "logs", id, task); !strings.Contains(out, "ready\n") {
						return fmt.Errorf("it has written %q", out)
					}
					return nil
				})
			}
			if out := a.must("alloc", "logs", id, "nobody"); !strings.HasPrefix(out, "nobody\n") {
				t.Errorf("the user is %q", out)
			}
			begin := time.Now()
			a.must("job", "stop", "kill")
			took := time.Since(begin)
			if took < 4*time.Second || took > time.Minute {
				t.Errorf("the end took %s, want the 4 s of the node", took)
			}
			if out := a.must("alloc", "logs", id, "signal"); !strings.HasSuffix(out, "got USR1\n") {
				t.Errorf("signal has written %q", out)
			}
			if out := a.must("alloc", "logs", id, "default"); !strings.HasSuffix(out, "got INT\n") {
				t.Errorf("default has written %q", out)
			}
			var end structs.Allocation
			if err := json.Unmarshal([]byte(a.must("alloc", "status", "-json", id)), &end); err != nil {
				t.Fatal(err)
			}
			after := func(task string) time.Duration { return end.TaskStates[task].FinishedAt.Sub(begin) }
			if after("deaf") < 2*time.Second || after("bounded") < 4*time.Second || after("signal") > after("deaf") {
				t.Errorf("deaf ended after %s, bounded after %s, signal after %s",
					after("deaf"), after("bounded"), after("signal"))
			}
		})
	}
}
