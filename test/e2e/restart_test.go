package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/structs"
)

// taskProcesses are the processes that run the tasks of the agent's node.
func (a *agent) taskProcesses() []int {
	return programsOf(a.data("drivers"))
}

func TestAgent_StopKeepsTasksAndMounts(t *testing.T) {
	t.Parallel()
	a := agentWithVolume(t)
	a.must("job", "run", example(t, "counter.hcl"))
	alloc := a.awaitRunning("counter", 1)[0].ID
	a.awaitMoreOutput(alloc)
	tasks := a.taskProcesses()
	mounts := stagedBelow(a.dir)
	node := liveAgent{agent: a}
	var history []string
	eventually(t, "the node's history has both halves of the plugin", func() error {
		history = node.history()
		for _, half := range []string{"controller", "node"} {
			if !slices.Contains(history, "CSI: plugin hostpath ("+half+") is healthy") {
				return fmt.Errorf("it is %q", history)
			}
		}
		return nil
	})

	a.stop()
	if now := a.taskProcesses(); !slices.Equal(now, tasks) {
		t.Errorf("without the agent the processes are %v, were %v", now, tasks)
	}
	if now := stagedBelow(a.dir); !slices.Equal(now, mounts) {
		t.Errorf("without the agent the mounts are %v, were %v", now, mounts)
	}
	a.start()
	node.awaitLog("node registered", 2)
	a.healthyNodes("hostpath", 1)
	if again := a.awaitRunning("counter", 1)[0]; again.ID != alloc || again.TaskStates["counter"].Restarts != 0 {
		t.Errorf("allocation %s with %d restarts; was %s",
			again.ID, again.TaskStates["counter"].Restarts, alloc)
	}
	if now := a.taskProcesses(); !slices.Equal(now, tasks) {
		t.Errorf("processes are %v, were %v", now, tasks)
	}
	a.awaitMoreOutput(alloc)
	if now := node.history(); !slices.Equal(now, history) {
		t.Errorf("the node's history is %q, was %q", now, history)
	}
	stopWithVolume(a, "counter")
}

// checkSettled returns how a job with one allocation on the volume "counter" differs from its target: running
// once, with one stage, one publication and one claim, all of the same allocation, or gone with all.
func checkSettled(a *agent, wantRunning bool) error {
	allocs, err := get[[]*structs.AllocListStub](a, "/v1/job/counter/allocations")
	if err != nil && !strings.Contains(err.Error(), "404") {
		return err
	}
	claims, err := a.claims("counter")
	if err != nil {
		return err
	}
	var live []string
	for _, s := range allocs {
		switch {
		case s.DesiredStatus == structs.AllocDesiredRun && s.ClientStatus == structs.AllocRunning:
			live = append(live, s.ID)
		case s.ClientStatus == structs.AllocPending || s.ClientStatus == structs.AllocRunning:
			return fmt.Errorf("allocation %.8s is %s/%s%s",
				s.ID, s.DesiredStatus, s.ClientStatus, events(s))
		}
	}
	want := 0
	if wantRunning {
		want = 1
	}
	switch {
	case len(live) != want:
		return fmt.Errorf("running: %v", live)
	case len(claims) != want:
		return fmt.Errorf("%d claims", len(claims))
	case want == 1 && claims[0].AllocID != live[0]:
		return fmt.Errorf("the claim is of %.8s, running is %.8s",
			claims[0].AllocID, live[0])
	case stages(a) != want || publications(a) != want ||
		len(a.loopDevices()) != want:
		return fmt.Errorf("mounts %v, loop devices %v",
			stagedBelow(a.dir), a.loopDevices())
	}
	return nil
}

// checkSingleMounts returns an error if the volume has more mounts than one allocation needs.
func checkSingleMounts(a *agent) error {
	if stages(a) > 1 || publications(a) > 1 {
		return fmt.Errorf("mounted twice: %v", stagedBelow(a.dir))
	}
	return nil
}

// killWhile runs a command, kills the agent at a random moment of its execution and starts the agent again.
func (a *agent) killWhile(rnd *rand.Rand, args ...string) {
	a.t.Helper()
	_, _ = a.run(args...) // detached: it returns when the request is stored
	after := time.Duration(rnd.IntN(250)) * time.Millisecond
	time.Sleep(after)
	a.kill()
	a.t.Logf("killed %s after %s", after, strings.Join(args, " "))
	if err := checkSingleMounts(a); err != nil {
		a.t.Error(err)
	}
	a.start()
}

func TestAgent_KilledAtAnyMomentMountsOnce(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(seedOf(t), 0))
	a := newAgent(t, "one", "-server", "-client")
	a.start()
	a.must("job", "run", fastRestartPlugin(t, a, "64"))
	a.healthyNodes("hostpath", 1)
	a.createVolume(volumeFile{id: "counter", image: true})
	for range 4 {
		a.killWhile(rnd, "job", "run", "-detach", example(t, "counter.hcl"))
		eventually(t, "the job runs once", func() error {
			if err := checkSingleMounts(a); err != nil {
				t.Error(err)
			}
			return checkSettled(a, true)
		})
		a.awaitMoreOutput(a.awaitRunning("counter", 1)[0].ID)
		a.killWhile(rnd, "job", "stop", "-purge", "-detach", "counter")
		eventually(t, "the job has ended", func() error {
			return checkSettled(a, false)
		})
	}
	stopWithVolume(a)
}

func TestAgent_RejectsAFileAsDataDirectory(t *testing.T) {
	t.Parallel()
	a := newAgent(t, "one", "-server", "-client")
	if err := os.WriteFile(a.data(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := a.run(a.args...)
	if exitCode(err) == 0 || !strings.Contains(err.Error(), a.data()) {
		t.Errorf("a data directory that is a file: %v", err)
	}
}

// crash ends the agent, if it still runs, and all its processes at once, and removes its mounts and loop
// devices, like a loss of power.
func (a *agent) crash() {
	a.t.Helper()
	if a.cmd != nil {
		a.kill()
	}
	for _, pid := range a.taskTree() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	eventually(a.t, "every process has ended", func() error {
		if left := a.taskTree(); len(left) > 0 {
			return fmt.Errorf("processes %v", left)
		}
		return nil
	})
	for _, m := range mountsBelow(a.dir) {
		if err := unix.Unmount(m, unix.MNT_DETACH); err != nil {
			a.t.Fatal(err)
		}
	}
	for _, d := range a.loopDevices() {
		_ = exec.Command("losetup", "-d", d).Run()
	}
}

// taskTree are the processes of the tasks and all their descendants.
func (a *agent) taskTree() []int {
	return descendants(func(pid int) bool { return names(pid, "cmdline", a.data("drivers")) })
}

func TestAgent_MountsAgainAfterALossOfPower(t *testing.T) {
	t.Parallel()
	a := newAgent(t, "one", "-server", "-client")
	a.start()
	a.must("job", "run", fastRestartPlugin(t, a, "64"))
	a.healthyNodes("hostpath", 1)
	a.createVolume(volumeFile{id: "counter", image: true})
	a.must("job", "run", example(t, "counter.hcl"))
	a.awaitMoreOutput(a.awaitRunning("counter", 1)[0].ID)

	a.crash()
	a.start()
	a.healthyNodes("hostpath", 1)
	eventually(t, "the job runs once", func() error {
		return checkSettled(a, true)
	})
	alloc := a.awaitRunning("counter", 1)[0].ID
	eventually(t, "the data survived", func() error {
		var n int
		text := a.logs(alloc)
		last := text[max(0, strings.LastIndex(text, "found")):]
		if _, err := fmt.Sscanf(last, "found %d lines", &n); err != nil || n < 1 {
			return fmt.Errorf("the output is %q", text)
		}
		return nil
	})
	a.awaitMoreOutput(alloc)
	stopWithVolume(a, "counter")
}

func TestAgent_RejectsADataDirectoryInUse(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"-server", "-client"} {
		a := newAgent(t, "one", kind, "-servers", "127.0.0.1:1")
		a.launch()
		eventually(t, "the agent answers", func() error {
			_, err := get[map[string]any](a, "/v1/agent/self")
			return err
		})
		other := newAgent(t, "two", kind, "-data-dir", a.data(), "-servers", "127.0.0.1:1")
		out, err := other.run(other.args...)
		if exitCode(err) == 0 || !strings.Contains(fmt.Sprint(err), a.data()) {
			t.Errorf("%s: a second agent on the same data directory: %s, %v", kind, out, err)
		}
	}
}

func TestRestore_EndsUnknownAllocationsAndReplacesEndedOnes(t *testing.T) {
	t.Parallel()
	a := newAgent(t, "one", "-server", "-client")
	a.start()
	a.must("job", "run", fastRestartPlugin(t, a, "64"))
	a.healthyNodes("hostpath", 1)
	a.createVolume(volumeFile{id: "counter", image: true})
	before := filepath.Join(a.dir, "before.snap")
	during := filepath.Join(a.dir, "during.snap")
	a.must("operator", "snapshot", "save", before)
	a.must("job", "run", example(t, "counter.hcl"))
	a.awaitMoreOutput(a.awaitRunning("counter", 1)[0].ID)
	a.must("operator", "snapshot", "save", during)

	a.must("operator", "snapshot", "restore", before) // the servers do not know the running allocations
	eventually(t, "the job has ended", func() error {
		return checkSettled(a, false)
	})
	a.must("job", "run", example(t, "counter.hcl"))
	eventually(t, "the job runs once", func() error {
		return checkSettled(a, true)
	})
	a.must("job", "stop", "-purge", "counter")
	a.awaitFree("counter")

	a.must("operator", "snapshot", "restore", during) // the allocations that should run have ended
	eventually(t, "the job runs once again", func() error {
		if err := checkSingleMounts(a); err != nil {
			t.Error(err)
		}
		return checkSettled(a, true)
	})
	a.awaitMoreOutput(a.awaitRunning("counter", 1)[0].ID)
	for _, fault := range stateViolations(t, a) {
		t.Errorf("the state is not sound: %s", fault)
	}
	stopWithVolume(a, "counter")
}
