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
