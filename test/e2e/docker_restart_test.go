package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"berth/client/drivers/docker/dockertest"
	"berth/structs"
)

// crowdJob is a job with containers that write without an end.
func (a *agent) crowdJob(count int) string {
	return a.writeFile("crowd.hcl", fmt.Sprintf(`
job "crowd" {
  group "g" {
    count = %d
    restart {
      attempts = 5
      delay    = "1s"
      mode     = "fail"
    }
    task "t" {
      driver = "docker"
      config {
        image        = "program:1"
        args         = ["count:100000 200ms"]
        network_mode = "none"
      }
      kill_timeout = "1s"
      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}`, count))
}

// restarts returns the number of restarts of each allocation of the crowd.
func (a *agent) restarts() map[string]uint64 {
	a.t.Helper()
	allocs, err := get[[]*structs.AllocListStub](a, "/v1/job/crowd/allocations")
	if err != nil {
		a.t.Fatal(err)
	}
	restarts := map[string]uint64{}
	for _, s := range allocs {
		restarts[s.ID] = s.TaskStates["t"].Restarts
	}
	return restarts
}

// awaitCrowd waits until each allocation has had so many restarts more than before and an event with the
// text, and runs.
func (a *agent) awaitCrowd(before map[string]uint64, restarts uint64, text string) {
	a.t.Helper()
	what := fmt.Sprintf("%d allocations run with %d restarts more and say %q", len(before), restarts, text)
	eventually(a.t, what, func() error {
		allocs, err := get[[]*structs.AllocListStub](a, "/v1/job/crowd/allocations")
		if err == nil && len(allocs) != len(before) {
			err = fmt.Errorf("there are %d", len(allocs))
		}
		for _, s := range allocs {
			task := s.TaskStates["t"]
			if err == nil && (task == nil || task.State != structs.TaskRunning ||
				task.Restarts != before[s.ID]+restarts || !strings.Contains(events(s), text)) {
				err = fmt.Errorf("allocation %s had %d restarts and is %+v%s", s.ID, before[s.ID], task, events(s))
			}
		}
		return err
	})
}

// TestDocker_TasksOutliveTheAgentAndTheDaemon kills each of them beside twenty tasks.
func TestDocker_TasksOutliveTheAgentAndTheDaemon(t *testing.T) {
	t.Parallel()
	const count = 20
	d := dockertest.Start(t, "--live-restore")
	d.Import("program:1")
	a := dockerAgent(t, d)
	a.must("job", "run", a.crowdJob(count))
	alloc := a.awaitRunning("crowd", count)[0].ID
	var processes []int
	eventually(t, "each task has one process", func() error {
		processes = d.Processes()
		if len(processes) != count {
			return fmt.Errorf("%d processes for %d tasks", len(processes), count)
		}
		return nil
	})
	before := a.restarts() // a busy daemon may have failed to start a container at first
	check := func(text string) {
		t.Helper()
		a.awaitDriver("docker", true)
		a.awaitMoreOutput(alloc)
		a.awaitCrowd(before, 0, text)
		awaitProcesses(t, d, processes)
	}

	a.kill()
	a.start()
	check("")

	d.Kill()
	const away = "The docker daemon is away"
	a.awaitCrowd(before, 0, away)
	a.awaitDriver("docker", false)
	d.Run()
	check(away)

	a.must("job", "stop", "-purge", "crowd")
	awaitProcesses(t, d, nil) // the agent knows all containers
}

// awaitProcesses waits until the containers of a daemon have the same processes as before, and no helpers
// that the daemon starts for a moment.
func awaitProcesses(t *testing.T, d *dockertest.Daemon, before []int) {
	t.Helper()
	eventually(t, "the containers have the same processes", func() error {
		if now := d.Processes(); !slices.Equal(now, before) {
			return fmt.Errorf("the processes are %v, were %v", now, before)
		}
		return nil
	})
}

// TestDocker_TasksThatEndWithTheDaemonStartAgain, by the policy of their group, and say why.
func TestDocker_TasksThatEndWithTheDaemonStartAgain(t *testing.T) {
	t.Parallel()
	const count = 3
	d := dockertest.Start(t)
	d.Import("program:1")
	a := dockerAgent(t, d)
	a.must("job", "run", a.crowdJob(count))
	a.awaitRunning("crowd", count)
	before := a.restarts()
	d.Kill()
	d.Run()
	a.awaitCrowd(before, 1, "live-restore is off")
	a.must("job", "stop", "-purge", "crowd")
}
