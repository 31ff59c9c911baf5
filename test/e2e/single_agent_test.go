package e2e

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/structs"
)

// agentWithVolume starts one agent with the hostpath plugin and the volume "counter".
func agentWithVolume(t testing.TB) *agent {
	t.Helper()
	a := newAgent(t, "one", "-server", "-client")
	a.start()
	a.must("job", "run", example(t, "hostpath.hcl"))
	a.healthyNodes("hostpath", 1)
	a.must("volume", "create", example(t, "volume.hcl"))
	return a
}

// stopWithVolume stops the jobs, deletes the volume of agentWithVolume, and checks that nothing is left.
func stopWithVolume(a *agent, jobs ...string) {
	a.t.Helper()
	for _, j := range jobs {
		a.must("job", "stop", "-purge", j)
	}
	a.awaitFree("counter")
	if left := stagedBelow(a.dir); len(left) > 0 {
		a.t.Errorf("mounts of volumes after the last claim has ended: %v", left)
	}
	a.must("volume", "delete", "counter")
	a.must("job", "stop", "-purge", "hostpath")
	eventually(a.t, "a plugin whose job is purged is not found", func() error {
		resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/v1/plugin/csi/hostpath", a.http))
		if err != nil {
			return err
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusNotFound {
			return fmt.Errorf("%s", resp.Status)
		}
		return nil
	})
	eventually(a.t, "every task has ended", func() error {
		if n := len(a.taskProcesses()); n > 0 {
			return fmt.Errorf("%d processes", n)
		}
		if left := a.cgroups(); len(left) > 0 {
			return fmt.Errorf("cgroups %v", left)
		}
		return nil
	})
	a.stop()
	a.awaitNoLoopDevices()
}

// awaitNoLoopDevices waits until the agent has no loop device. The kernel frees a device with the last mount
// of it, and a process that starts in a mount namespace of its own has a copy of each mount for a moment.
func (a *agent) awaitNoLoopDevices() {
	a.t.Helper()
	eventually(a.t, "no loop device is left", func() error {
		if left := a.loopDevices(); len(left) > 0 {
			return fmt.Errorf("left are %v", left)
		}
		return nil
	})
}

// stagedBelow lists the mounts in the staging and publish directories, without the mount of the tree itself.
func stagedBelow(dir string) (left []string) {
	root := filepath.Join(dir, "data", "csi", "v")
	for _, m := range mountsBelow(root) {
		if m != root {
			left = append(left, m)
		}
	}
	return left
}

func TestStory_JobFromFileToMountedVolumeAndBack(t *testing.T) {
	t.Parallel()
	a := agentWithVolume(t)
	a.must("job", "run", unchangedExample("counter.hcl"))
	ended := time.Now()
	first := a.awaitRunning("counter", 1)[0]
	checkEndsHealthy(t, first, ended)
	eventually(t, "a line is written", func() error {
		if n := strings.Count(a.logs(first.ID), first.ID); n < 2 {
			return fmt.Errorf("%d lines", n)
		}
		return nil
	})
	a.must("job", "stop", "counter")
	a.awaitFree("counter")

	a.must("job", "run", example(t, "counter.hcl"))
	second := a.awaitRunning("counter", 1)[0]
	eventually(t, "the data survived", func() error {
		var n int
		if _, err := fmt.Sscanf(a.logs(second.ID), "found %d lines", &n); err != nil || n < 2 {
			return fmt.Errorf("found %d lines: %v", n, err)
		}
		return nil
	})
	stopWithVolume(a, "counter")
}

// checkEndsHealthy checks that job run has ended after the first healthy moment of its allocation, and logs
// the time between. On an idle machine that is well below 3 s; a busy one delays every process.
func checkEndsHealthy(t *testing.T, a *structs.AllocListStub, ended time.Time) {
	t.Helper()
	s := a.DeploymentStatus
	if !s.IsHealthy() || s.Timestamp.After(ended) {
		t.Fatalf("job run has ended at %s, and the health of its allocation is %+v", ended, s)
	}
	t.Logf("job run ended %s after the first healthy moment", ended.Sub(s.Timestamp))
}

func TestStory_KilledAgentKeepsTasksAndMounts(t *testing.T) {
	t.Parallel()
	a := agentWithVolume(t)
	a.must("job", "run", example(t, "counter.hcl"))
	alloc := a.awaitRunning("counter", 1)[0]
	eventually(t, "a line is written", func() error {
		if !strings.Contains(a.logs(alloc.ID), alloc.ID) {
			return fmt.Errorf("none")
		}
		return nil
	})
	tasks := programsOf(filepath.Join(a.dir, "data", "drivers"))
	mounts := stagedBelow(a.dir)
	if len(tasks) == 0 || len(mounts) == 0 {
		t.Fatalf("processes %v, mounts %v", tasks, mounts)
	}

	a.kill()
	a.start()
	a.healthyNodes("hostpath", 1)
	again := a.awaitRunning("counter", 1)[0]
	if again.ID != alloc.ID || again.TaskStates["counter"].Restarts != 0 {
		t.Errorf("allocation %s with %d restarts; was %s",
			again.ID, again.TaskStates["counter"].Restarts, alloc.ID)
	}
	if now := programsOf(filepath.Join(a.dir, "data", "drivers")); fmt.Sprint(now) != fmt.Sprint(tasks) {
		t.Errorf("processes are %v, were %v", now, tasks)
	}
	if now := stagedBelow(a.dir); fmt.Sprint(now) != fmt.Sprint(mounts) {
		t.Errorf("mounts are %v, were %v", now, mounts)
	}
	before := strings.Count(a.logs(alloc.ID), alloc.ID)
	eventually(t, "the task continues to write", func() error {
		if n := strings.Count(a.logs(alloc.ID), alloc.ID); n <= before {
			return fmt.Errorf("%d lines, as before", n)
		}
		return nil
	})
	stopWithVolume(a, "counter")
}

func TestAgent_DevLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	a := newAgent(t, "dev", "-dev")
	a.start()
	a.must("job", "run", example(t, "hostpath.hcl"))
	a.healthyNodes("hostpath", 1)
	a.must("volume", "create", example(t, "volume.hcl"))
	a.must("job", "run", example(t, "counter.hcl"))
	a.awaitRunning("counter", 1)
	a.stop()
	if left := processesOf(a.dir); len(left) > 0 {
		t.Errorf("processes left: %v", left)
	}
	if left := mountsBelow(a.dir); len(left) > 0 {
		t.Errorf("mounts left: %v", left)
	}
}
