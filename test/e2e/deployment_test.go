package e2e

import (
	"fmt"
	"strings"
	"testing"

	"berth/structs"
)

// rollingJob is a service of two tasks that run a script.
func rollingJob(update, script string) string {
	return fmt.Sprintf(`
job "web" {
  update {
    min_healthy_time = "1s"
    healthy_deadline = "5s"
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
	out := a.must("job", "run", a.writeFile("two.hcl", rollingJob("auto_revert = true", "sleep 1000; echo two")))
	for _, text := range []string{"1 of 2 placed", "2 of 2 placed, 2 healthy", "completed successfully"} {
		if !strings.Contains(out, text) {
			t.Errorf("job run does not say %q:\n%s", text, out)
		}
	}
	broken := rollingJob("auto_revert = true\nprogress_deadline = \"0s\"", "exit 1")
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

// A version whose tasks start again and again neither fails nor becomes healthy. Its deployment fails at the
// deadline, and the job goes back.
func TestDeployment_RevertsAJobThatNeverBecomesHealthy(t *testing.T) {
	t.Parallel()
	a := newAgent(t, "deploy", "-dev")
	a.start()
	a.must("job", "run", a.writeFile("one.hcl", rollingJob("auto_revert = true", "sleep 1000")))
	restless := rollingJob("auto_revert = true\nprogress_deadline = \"8s\"", "sleep 0.3; exit 1")
	restless = strings.Replace(restless, "attempts = 0",
		"attempts = 1000\n      interval = \"1h\"\n      delay = \"100ms\"", 1)
	a.mustFail(6, []string{"rolling back to job version 0"}, "job", "run", a.writeFile("two.hcl", restless))
	eventually(t, "the job is back", func() error {
		if d, v := a.deployment(), a.versions(); d.Status != structs.DeploymentSuccessful || v != "map[2:2]" {
			return fmt.Errorf("the deployment is %s, the allocations are %s", d.Status, v)
		}
		return nil
	})
	restarts := 0
	for _, s := range decode[[]*structs.AllocListStub](t, a.must("alloc", "status", "-json")) {
		if s.JobVersion == 1 {
			restarts += int(s.TaskStates["t"].Restarts)
		}
	}
	if restarts == 0 {
		t.Error("the tasks of the bad version have not started again")
	}
}
