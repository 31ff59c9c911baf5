package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"berth/structs"
)

// liveAgent is an agent whose configuration changes while it runs.
type liveAgent struct {
	*agent
	file string
}

// reload replaces the configuration and sends SIGHUP.
func (a liveAgent) reload(text string) {
	a.t.Helper()
	a.writeFile(filepath.Base(a.file), text)
	if err := a.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		a.t.Fatal(err)
	}
}

// awaitLog waits until the log has a text n times.
func (a liveAgent) awaitLog(text string, n int) {
	a.t.Helper()
	eventually(a.t, fmt.Sprintf("the log has %q", text), func() error {
		log, err := os.ReadFile(a.log.Name())
		if got := strings.Count(string(log), text); err == nil && got < n {
			err = fmt.Errorf("%d times", got)
		}
		return err
	})
}

func (a liveAgent) node() *structs.NodeDetail {
	a.t.Helper()
	return decode[*structs.NodeDetail](a.t, a.must("node", "status", "-self", "-json"))
}

// history returns the events of the node without those of the cluster.
func (a liveAgent) history() (messages []string) {
	a.t.Helper()
	for _, e := range a.node().Events {
		if e.Subsystem != "Cluster" {
			messages = append(messages, e.Subsystem+": "+e.Message)
		}
	}
	return messages
}

func (a liveAgent) awaitHistory(want ...string) {
	a.t.Helper()
	eventually(a.t, fmt.Sprintf("the history is %q", want), func() error {
		if got := a.history(); !slices.Equal(got, want) {
			return fmt.Errorf("it is %q", got)
		}
		return nil
	})
}

// TestLive_SettingsAndHistory changes the settings of a running agent by SIGHUP, with right and wrong files,
// lets a device vanish, and restarts the agent. The task runs on.
func TestLive_SettingsAndHistory(t *testing.T) {
	t.Parallel()
	a := liveAgent{agent: newAgent(t, "one", "-server", "-client")}
	device := filepath.Join(a.dir, "d0")
	if err := os.Symlink("/dev/null", device); err != nil {
		t.Fatal(err)
	}
	text := func(class, more string) string {
		return fmt.Sprintf("client {\n  node_class = %q\n  device \"berth/test/null\" { paths = [%q] }\n%s\n}\n",
			class, device, more)
	}
	a.file = a.writeFile("agent.hcl", text("small", ""))
	a.args = append(a.args, "-config", a.file)
	a.start()
	a.must("job", "run", a.writeFile("sleeper.hcl", `job "sleeper" {
  group "g" {
    task "t" {
      driver = "exec"
      config {
        command = "/bin/sleep"
        args    = ["1000"]
      }
    }
  }
}
`))
	alloc := a.awaitRunning("sleeper", 1)[0]
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"alloc", "status", "-stats", alloc.ID}, "Use of resources"},
		{[]string{"node", "status", "-stats", "-self"}, "Use of the machine"},
	} {
		eventually(t, c.want, func() error { // what does not answer in time is not measured
			out, err := a.run(c.args...)
			if err == nil && (!strings.Contains(out, c.want) || strings.Contains(out, "Not measured")) {
				err = fmt.Errorf("%q shows\n%s", c.args, out)
			}
			return err
		})
	}
	a.reload(text("big", `  meta { rack = "r2" }
  device "berth/test/zero" { paths = ["/dev/zero"] }`))
	eventually(t, "the node has its new settings", func() error {
		n := a.node()
		if n.NodeClass != "big" || n.Meta["rack"] != "r2" || n.DeviceGroup("berth/test/zero") == nil {
			return fmt.Errorf("it is %+v", n)
		}
		return nil
	})
	a.reload(text("huge", `  device "berth/test/full" { paths = ["full"] }`))
	a.awaitLog("agent.hcl:4,3: client.device", 1)
	if n := a.node(); n.NodeClass != "big" || n.DeviceGroup("berth/test/zero") == nil {
		t.Errorf("after a fault the node is %+v", n)
	}
	if err := os.Remove(device); err != nil {
		t.Fatal(err)
	}
	zero := "Device: device /dev/zero of berth/test/zero is healthy"
	gone := fmt.Sprintf("Device: device %s of berth/test/null is unhealthy: the device file is gone", device)
	a.awaitHistory(zero, gone)
	a.kill()
	a.writeFile("agent.hcl", text("big", `  device "berth/test/zero" { paths = ["/dev/zero"] }`))
	a.start()
	a.awaitLog("node registered", 2)
	a.awaitHistory(zero, gone)
	if again := a.awaitRunning("sleeper", 1)[0]; again.ID != alloc.ID || again.TaskStates["t"].Restarts > 0 {
		t.Errorf("the task did not run on: %+v", again)
	}
	a.must("job", "stop", "-purge", "sleeper")
}
