package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"berth/structs"
)

// rollingJob is a service of two tasks that run a script. A machine has much more time to start them than
// they need.
func rollingJob(update, script string) string {
	return fmt.Sprintf(`
job "web" {
  update {
    min_healthy_time = "1s"
    healthy_deadline = "2m"
    %s
  }
  group "g" {
    count = 2
    restart {
      attempts = 0
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", %q]
      }
    }
  }
}
`, update, script)
}

// gatedJob is a job whose allocations become healthy after a file is there.
func gatedJob(job, file string) string {
	return strings.Replace(job, "    task \"t\" {", fmt.Sprintf(`
    task "gate" {
      driver = "raw_exec"
      lifecycle {
        hook = "prestart"
      }
      config {
        command = "/bin/sh"
        args    = ["-c", "until [ -e %s ]; do sleep 0.1; done"]
      }
    }
    task "t" {`, file), 1)
}

// slowJob is a job whose allocations are healthy when they have run for a while. A task that ends at once
// does not seem to have run for so long, even if the machine is slow to report its end.
func slowJob(job, healthyTime, healthyDeadline string) string {
	return strings.NewReplacer(`min_healthy_time = "1s"`, "min_healthy_time = "+strconv.Quote(healthyTime),
		`healthy_deadline = "2m"`, "healthy_deadline = "+strconv.Quote(healthyDeadline)).Replace(job)
}

func (a *agent) deployment() *structs.Deployment {
	a.t.Helper()
	out := a.must("job", "deployments", "-json", "web")
	return decode[[]*structs.Deployment](a.t, out)[0]
}

// versions counts the running allocations of the job by version and script.
func (a *agent) versions() string {
	a.t.Helper()
	counts := map[uint64]int{}
	for _, s := range decode[[]*structs.AllocListStub](a.t, a.must("alloc", "status", "-json")) {
		if s.ClientStatus == structs.AllocRunning && s.DesiredStatus == structs.AllocDesiredRun {
			counts[s.JobVersion]++
		}
	}
	return fmt.Sprint(counts)
}

// A rolling update replaces one allocation after the other. A version that never becomes healthy fails, and
// the job goes back. Canaries wait for an operator.
func TestDeployment_RollsRevertsAndPromotes(t *testing.T) {
	a := newAgent(t, "deploy", "-dev")
	a.start()
	runs := "sleep 1000; echo one"
	a.must("job", "run", a.writeFile("one.hcl", rollingJob("auto_revert = true", runs)))
	if d := a.deployment(); d.Status != structs.DeploymentSuccessful || a.versions() != "map[0:2]" {
		t.Fatalf("the first deployment is %s, the allocations are %s", d.Status, a.versions())
	}
	gate := filepath.Join(a.dir, "gate")
	two := a.startCommand("job", "run",
		a.writeFile("two.hcl", gatedJob(rollingJob("auto_revert = true", "sleep 1000; echo two"), gate)))
	two.awaitText("1 of 2 placed")
	if err := os.WriteFile(gate, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	two.checkEnd(0, "1 of 2 placed", "2 of 2 placed, 2 healthy", "completed successfully")
	broken := slowJob(rollingJob("auto_revert = true\nprogress_deadline = \"0s\"", "exit 1"), "20s", "2m")
	a.mustFail(6, []string{"rolling back to job version 1"}, "job", "run", a.writeFile("three.hcl", broken))
	eventually(t, "the job is back", func() error {
		if d, v := a.deployment(), a.versions(); d.Status != structs.DeploymentSuccessful || v != "map[3:2]" {
			return fmt.Errorf("the deployment is %s, the allocations are %s", d.Status, v)
		}
		return nil
	})
	a.must("job", "run", a.writeFile("four.hcl", rollingJob("canary = 1", "sleep 1000; echo four")))
	if v := a.versions(); v != "map[3:2 4:1]" {
		t.Errorf("before the promotion the allocations are %s", v)
	}
	a.must("job", "promote", "web")
	if v := a.versions(); v != "map[4:2]" {
		t.Errorf("after the promotion the allocations are %s", v)
	}
}
