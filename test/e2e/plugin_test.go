package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"berth/structs"
)

// fastRestartPlugin is the example's plugin job, restarted without the usual delay and with a line changed.
func fastRestartPlugin(t testing.TB, a *agent, memory string) string {
	t.Helper()
	src, err := os.ReadFile(example(t, "hostpath.hcl"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(src), "group \"plugin\" {\n",
		"group \"plugin\" {\n    restart {\n      attempts = 5\n      delay = \"200ms\"\n    }\n", 1)
	return a.writeFile("plugin-"+memory+".hcl",
		strings.Replace(text, "memory = 64", "memory = "+memory, 1))
}

// driverProcess finds the process of the plugin on the agent's node.
func (a *agent) driverProcess() int {
	a.t.Helper()
	id, err := os.ReadFile(a.data("client", "node-id"))
	if err != nil {
		a.t.Fatal(err)
	}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		cmdline, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if bytes.HasPrefix(cmdline, []byte("berth\x00plugin\x00hostpath")) &&
			bytes.Contains(cmdline, bytes.TrimSpace(id)) {
			pid, err := strconv.Atoi(e.Name())
			if err != nil {
				a.t.Fatal(err)
			}
			return pid
		}
	}
	a.t.Fatal("no process of the plugin")
	return 0
}

// event waits until a task of the allocation has had events of these types, in this order.
func (a *agent) event(alloc, task string, types ...string) {
	a.t.Helper()
	eventually(a.t, fmt.Sprintf("events %q of task %s", types, task), func() error {
		got, err := get[*structs.Allocation](a, "/v1/allocation/"+alloc)
		if err != nil {
			return err
		}
		want := types
		var seen []string
		if s := got.TaskStates[task]; s != nil {
			for _, e := range s.Events {
				seen = append(seen, e.Type+": "+e.DisplayMessage)
				if len(want) > 0 && e.Type == want[0] {
					want = want[1:]
				}
			}
		}
		if len(want) > 0 {
			return fmt.Errorf("%q did not follow in %q", want[0], seen)
		}
		return nil
	})
}

func TestPlugin_KilledComesBackAndVolumesStay(t *testing.T) {
	t.Parallel()
	a := newAgent(t, "one", "-server", "-client")
	a.start()
	a.must("job", "run", fastRestartPlugin(t, a, "64"))
	a.healthyNodes("hostpath", 1)
	plugin := a.awaitRunning("hostpath", 1)[0].ID
	a.createVolume(volumeFile{id: "counter", image: true})
	a.must("job", "run", example(t, "counter.hcl"))
	user := a.awaitRunning("counter", 1)[0].ID
	a.awaitMoreOutput(user)
	mounts := stagedBelow(a.dir)

	was := a.driverProcess()
	if err := syscall.Kill(was, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	a.event(plugin, "driver", structs.TaskEventPluginHealthy, structs.TaskEventTerminated,
		structs.TaskEventRestarting, structs.TaskEventStarted, structs.TaskEventPluginHealthy)
	a.healthyNodes("hostpath", 1)
	if now := a.driverProcess(); now == was {
		t.Errorf("the plugin is still process %d", now)
	}
	if now := stagedBelow(a.dir); !slices.Equal(now, mounts) {
		t.Errorf("mounts are %v, were %v", now, mounts)
	}
	a.awaitMoreOutput(user)
	if again := a.awaitRunning("counter", 1)[0]; again.ID != user || again.TaskStates["counter"].Restarts != 0 {
		t.Errorf("the user of the volume did not go on: %s, %d restarts", again.ID,
			again.TaskStates["counter"].Restarts)
	}
	stopWithVolume(a, "counter")
}

func TestPlugin_ReplacedWhileItsVolumeIsUsed(t *testing.T) {
	t.Parallel()
	a := newAgent(t, "one", "-server", "-client")
	a.start()
	a.must("job", "run", fastRestartPlugin(t, a, "64"))
	a.healthyNodes("hostpath", 1)
	first := a.awaitRunning("hostpath", 1)[0].ID
	a.createVolume(volumeFile{id: "counter", image: true})
	a.must("job", "run", example(t, "counter.hcl"))
	user := a.awaitRunning("counter", 1)[0].ID
	a.awaitMoreOutput(user)
	mounts := stagedBelow(a.dir)

	a.must("job", "run", fastRestartPlugin(t, a, "65"))
	second := a.awaitRunning("hostpath", 1)[0].ID
	if second == first {
		t.Fatal("the plugin's allocation was not replaced")
	}
	eventually(t, "the new allocation serves the plugin", func() error {
		p, err := get[*structs.CSIPlugin](a, "/v1/plugin/csi/hostpath")
		if err != nil {
			return err
		}
		for node, i := range p.Nodes {
			if i.AllocID != second || !i.Healthy {
				return fmt.Errorf("node %s is served by %s, healthy %t", node, i.AllocID, i.Healthy)
			}
		}
		return nil
	})
	if now := stagedBelow(a.dir); !slices.Equal(now, mounts) {
		t.Errorf("mounts are %v, were %v", now, mounts)
	}
	a.awaitMoreOutput(user)
	stopWithVolume(a, "counter")
}

func TestVolumes_FailedStageUndoesTheOthers(t *testing.T) {
	t.Parallel()
	a := agentWithPlugin(t)
	a.createVolume(volumeFile{
		id:     "good",
		image:  true,
		fsType: "ext4",
	})
	a.createVolume(volumeFile{
		id:     "bad",
		image:  true,
		fsType: "ext4",
	})
	path := a.writeJob(jobFile{
		name:   "two",
		once:   true,
		script: "sleep 1000",
		uses: []volumeUse{
			{source: "good", at: "/good"},
			{source: "bad", at: "/bad", fsType: "xfs"},
		},
	})
	names := []string{`default/bad`, `plugin "hostpath"`, "NodeStageVolume", "FailedPrecondition", "xfs"}
	_, err := a.run("job", "run", path)
	if code := exitCode(err); code != 1 && code != 6 { // it sees the allocation that failed, or its deployment
		t.Errorf("job run ended with %d: %v", code, err)
	}
	allocs, err := get[[]*structs.AllocListStub](a, "/v1/job/two/allocations")
	if err != nil || len(allocs) != 1 {
		t.Fatalf("allocations %v, %v", allocs, err)
	}
	status := a.must("alloc", "status", allocs[0].ID)
	for _, name := range names {
		if !strings.Contains(status, name) {
			t.Errorf("alloc status does not say %q:\n%s", name, status)
		}
	}
	a.stopAndCheckClean([]string{"good", "bad"})

	// Both volumes are as usable as before.
	a.must("job", "stop", "-purge", "two")
	a.must("job", "run", a.writeJob(jobFile{
		name:   "again",
		script: "echo up; sleep 1000",
		uses: []volumeUse{
			{source: "good", at: "/good"},
			{source: "bad", at: "/bad"},
		},
	}))
	a.awaitOutput(a.awaitRunning("again", 1)[0].ID, "up")
	a.stopAndCheckClean([]string{"good", "bad"}, "again")
}

// otherDriverJob is a job that runs another driver under the plugin ID of the example.
func otherDriverJob(t testing.TB, a *agent) string {
	t.Helper()
	src, err := os.ReadFile(example(t, "hostpath.hcl"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(src), `job "hostpath"`, `job "other"`, 1)
	args := `"${node.unique.id}", "-name", "other.csi", "-data-dir", "/tmp/other"]`
	return a.writeFile("other.hcl",
		strings.Replace(text, `"${node.unique.id}"]`, args, 1))
}

func TestPluginID_RejectsASecondDriver(t *testing.T) {
	t.Parallel()
	a := newAgent(t, "one", "-server", "-client")
	a.start()
	a.must("job", "run", example(t, "hostpath.hcl"))
	a.healthyNodes("hostpath", 1)
	driver := a.awaitRunning("hostpath", 1)[0].ID
	a.createVolume(volumeFile{id: "counter", image: true})

	says := []string{"its plugin is not healthy yet", "is not used", `driver is "other.csi"`,
		"not done after 3s"}
	a.mustFailEventually(8, says, "job", "run", "-timeout", "3s", otherDriverJob(t, a))
	out := a.must("plugin", "status", "hostpath")
	if !strings.Contains(out, "Problems") ||
		!strings.Contains(out, `driver is "other.csi"`) {
		t.Errorf("plugin status does not say why:\n%s", out)
	}
	p, err := get[*structs.CSIPlugin](a, "/v1/plugin/csi/hostpath")
	if err != nil {
		t.Fatal(err)
	}
	for node, i := range p.Nodes {
		if i.AllocID != driver || !i.Healthy {
			t.Errorf("node %s is served by allocation %s, healthy %t", node, i.AllocID, i.Healthy)
		}
	}
	a.must("job", "run", example(t, "counter.hcl"))
	a.awaitMoreOutput(a.awaitRunning("counter", 1)[0].ID)
	a.must("job", "stop", "-purge", "other")
	stopWithVolume(a, "counter")
}
