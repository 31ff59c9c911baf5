package e2e

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/client/drivers/drivertest"
	"berth/structs"
)

// externalAgent is an agent with plugins that nobody here wrote. Each is a program of the directory of
// plugins and a block of the configuration.
func externalAgent(t *testing.T, programs ...string) *agent {
	t.Helper()
	a := newAgent(t, "one", "-server", "-client")
	dirs := filepath.Join(a.dir, "devices")
	for _, dir := range []string{a.pluginDir(), dirs} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	configs := map[string]string{
		"peer_raw_exec":  `enabled = true, no_cgroups = true`,
		"peer_exec":      ``,
		"example-device": fmt.Sprintf("dir = %q, list_period = \"100ms\"", dirs),
	}
	config := fmt.Sprintf("plugin_dir = %q\n", a.pluginDir())
	for _, name := range programs {
		err := os.Symlink(drivertest.PeerPlugin(t, name), filepath.Join(a.pluginDir(), name))
		if err != nil {
			t.Fatal(err)
		}
		settings := strings.ReplaceAll(configs[name], ", ", "\n    ")
		config += fmt.Sprintf("plugin %q {\n  config {\n    %s\n  }\n}\n", name, settings)
	}
	a.args = append(a.args, "-config", a.writeFile("external.hcl", config))
	return a
}

func (a *agent) pluginDir() string { return filepath.Join(a.dir, "programs") }

// externalJob is a job with tasks of an external driver. Each prints where its directory is, and runs.
func (a *agent) externalJob(driver string, count int) string {
	return a.writeFile(driver+".hcl", fmt.Sprintf(`
job "external" {
  group "group" {
    count = %d
    task "task" {
      driver = %q
      config {
        command = "/bin/sh"
        args    = ["-c", "echo in $NOMAD_TASK_DIR; while sleep 1; do :; done # %s"]
      }
      resources {
        cpu    = 20
        memory = 64
      }
    }
  }
}`, count, driver, a.dir))
}

// externalTasks has the process of each task of externalJob, by allocation.
func (a *agent) externalTasks() map[string]int {
	tasks := map[string]int{}
	for _, pid := range programsOf("# " + a.dir) {
		cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		_, id, found := bytes.Cut(environ, []byte("BERTH_ALLOC_ID="))
		if bytes.HasPrefix(cmdline, []byte("/bin/sh\x00-c\x00")) && found {
			id, _, _ = bytes.Cut(id, []byte{0})
			tasks[string(id)] = pid
		}
	}
	return tasks
}

// awaitTasks waits until as many tasks run as wanted.
func (a *agent) awaitTasks(want int) map[string]int {
	a.t.Helper()
	var tasks map[string]int
	eventually(a.t, fmt.Sprintf("%d tasks run", want), func() error {
		tasks = a.externalTasks()
		if len(tasks) != want {
			return fmt.Errorf("%d run", len(tasks))
		}
		return nil
	})
	return tasks
}

// driverProcesses are the processes of a plugin.
func (a *agent) pluginProcesses(name string) (pids []int) {
	for _, pid := range programsOf(filepath.Join(a.pluginDir(), name)) {
		cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if bytes.Count(cmdline, []byte{0}) == 1 { // no arguments: it is not a helper for a task
			pids = append(pids, pid)
		}
	}
	return pids
}

// pluginProcess waits until the plugin has one process.
func (a *agent) pluginProcess(name string) int {
	a.t.Helper()
	var pids []int
	eventually(a.t, "one process of "+name, func() error {
		pids = a.pluginProcesses(name)
		if len(pids) != 1 {
			return fmt.Errorf("it has %v", pids)
		}
		return nil
	})
	return pids[0]
}

// node is the row of the agent's node.
func (a *agent) node() (*structs.Node, error) {
	id, err := os.ReadFile(a.data("client", "node-id"))
	if err != nil {
		return nil, err
	}
	return get[*structs.Node](a, "/v1/node/"+strings.TrimSpace(string(id)))
}

// awaitDriver waits until the node shows the driver as healthy, or as not.
func (a *agent) awaitDriver(name string, healthy bool) {
	a.t.Helper()
	eventually(a.t, fmt.Sprintf("driver %s has the health %t", name, healthy), func() error {
		n, err := a.node()
		if err != nil {
			return err
		}
		d := n.Drivers[name]
		if d == nil || d.Healthy != healthy {
			return fmt.Errorf("it is %+v", d)
		}
		return nil
	})
}

// driverEvents are the events of the node that are about a driver.
func (a *agent) driverEvents(name string) (messages []string) {
	a.t.Helper()
	n, err := a.node()
	if err != nil {
		a.t.Fatal(err)
	}
	for _, e := range n.Events {
		if e.Subsystem == "Driver" && e.Details["driver"] == name {
			messages = append(messages, e.Message)
		}
	}
	return messages
}

// checkUntouched checks that the tasks are the same processes, and never were restarted.
func (a *agent) checkUntouched(tasks map[string]int) {
	a.t.Helper()
	for _, alloc := range a.awaitRunning("external", len(tasks)) {
		if n := alloc.TaskStates["task"].Restarts; n != 0 {
			a.t.Errorf("allocation %s has %d restarts", alloc.ID, n)
		}
	}
	if now := a.externalTasks(); !maps.Equal(now, tasks) {
		a.t.Errorf("the processes are %v, were %v", now, tasks)
	}
}

// stopExternal stops the job and checks that the driver has found all tasks.
func (a *agent) stopExternal() {
	a.t.Helper()
	a.must("job", "stop", "external")
	a.awaitTasks(0)
}

func TestExternalDriver_RunsAJob(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"peer_raw_exec", "peer_exec"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			a := externalAgent(t, driver)
			a.start()
			a.awaitDriver(driver, true)
			a.must("job", "run", a.externalJob(driver, 1))
			alloc := a.awaitRunning("external", 1)[0].ID
			out := a.awaitOutput(alloc, "in ")
			dir := a.data("alloc", alloc, "task", "local")
			if driver == "peer_exec" {
				dir = "/local"
			}
			if !strings.Contains(out, "in "+dir+"\n") {
				t.Errorf("the task is in %q, want %s", out, dir)
			}
			a.awaitTasks(1)
			a.stopExternal()
			a.event(alloc, "task", structs.TaskEventStarted, structs.TaskEventKilling, structs.TaskEventKilled)
		})
	}
}

func TestExternalDriver_TasksOutliveItsProcess(t *testing.T) {
	t.Parallel()
	const driver = "peer_raw_exec"
	a := externalAgent(t, driver)
	a.start()
	a.awaitDriver(driver, true)
	a.must("job", "run", a.externalJob(driver, 20))
	a.awaitRunning("external", 20)
	tasks := a.awaitTasks(20)
	before := len(a.driverEvents(driver))
	process := a.pluginProcess(driver)
	if err := unix.Kill(process, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	// The driver may be healthy again before anybody sees that it was not. The events stay.
	eventually(t, "the node's events name both changes, once", func() error {
		events := a.driverEvents(driver)
		if len(events) != before+2 || !strings.Contains(events[before], "gone") ||
			!strings.Contains(events[before+1], "is healthy") {
			return fmt.Errorf("they are %q", events)
		}
		return nil
	})
	a.awaitDriver(driver, true)
	if again := a.pluginProcess(driver); again == process {
		t.Errorf("process %d was killed", process)
	}
	a.checkUntouched(tasks)
	if out := a.must("node", "status", "one"); !strings.Contains(out, "driver "+driver+" is gone") {
		t.Errorf("node status:\n%s", out)
	}
	a.stopExternal()
}

func TestExternalDriver_OutlivesTheAgent(t *testing.T) {
	t.Parallel()
	const driver = "peer_raw_exec"
	a := externalAgent(t, driver)
	a.start()
	a.awaitDriver(driver, true)
	a.must("job", "run", a.externalJob(driver, 20))
	a.awaitRunning("external", 20)
	tasks := a.awaitTasks(20)
	process := a.pluginProcess(driver)
	before := a.driverEvents(driver)
	for _, end := range []func(){a.kill, a.stop} {
		end()
		a.start()
		a.awaitDriver(driver, true)
		a.checkUntouched(tasks)
		if again := a.pluginProcess(driver); again != process {
			t.Errorf("the process is %d, was %d", again, process)
		}
	}
	if events := a.driverEvents(driver); len(events) != len(before) {
		t.Errorf("the node's events are %q, were %q", events, before)
	}
	a.stopExternal()
}

// The agent, the other drivers and the heartbeats do not wait for a driver that hangs in each call.
func TestExternalDriver_ThatHangsHoldsUpNobody(t *testing.T) {
	t.Parallel()
	const driver = "peer_raw_exec"
	a := externalAgent(t, driver)
	a.allowRaw().start()
	a.awaitDriver(driver, true)
	a.must("job", "run", a.externalJob(driver, 1))
	a.awaitRunning("external", 1)
	tasks := a.awaitTasks(1)
	process := a.pluginProcess(driver)
	if err := unix.Kill(process, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	a.must("job", "run", "-detach", a.externalJob(driver, 2)) // a task whose start hangs
	a.must("job", "run", a.writeFile("other.hcl", `
job "other" {
  group "group" {
    task "task" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo up; exec sleep 1000"]
      }
    }
  }
}`))
	a.awaitOutput(a.awaitRunning("other", 1)[0].ID, "up")
	a.awaitDriver(driver, false)
	n, err := a.node()
	if err != nil || n.Status != structs.NodeReady ||
		!strings.Contains(n.Drivers[driver].HealthDescription, "does not answer") {
		t.Errorf("the node is %+v, %v", n, err)
	}
	began := time.Now()
	a.stop()
	if took := time.Since(began); took > 45*time.Second {
		t.Errorf("the agent stopped after %s", took)
	}
	if err := unix.Kill(process, unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	a.start()
	a.awaitDriver(driver, true)
	for alloc, pid := range tasks {
		if now := a.awaitTasks(2)[alloc]; now != pid {
			t.Errorf("allocation %s has process %d, had %d", alloc, now, pid)
		}
	}
	a.stopExternal()
	a.must("job", "stop", "other")
}

func TestExternalDriver_ThatIsDeniedEnds(t *testing.T) {
	t.Parallel()
	const driver = "peer_raw_exec"
	a := externalAgent(t, driver)
	a.start()
	a.awaitDriver(driver, true)
	a.must("job", "run", a.externalJob(driver, 1))
	a.awaitRunning("external", 1)
	tasks := a.awaitTasks(1)
	a.stop()
	a.pluginProcess(driver)
	args := a.args
	a.args = append(args, "-config",
		a.writeFile("deny.hcl", `client { options = { "driver.denylist" = "`+driver+`" } }`))
	a.start()
	eventually(t, "the process of the denied driver is gone", func() error {
		if left := a.pluginProcesses(driver); len(left) > 0 {
			return fmt.Errorf("processes %v are left", left)
		}
		return nil
	})
	eventually(t, "the node does not show the driver", func() error {
		n, err := a.node()
		if err == nil && n.Drivers[driver] != nil {
			err = fmt.Errorf("it is %+v", n.Drivers[driver])
		}
		return err
	})
	a.checkUntouched(tasks) // nobody can tell whether it runs, so it counts as running
	a.stop()
	a.args = append(args, "-config", a.writeFile("destroy.hcl", "client { destroy_on_shutdown = true }"))
	a.start()
	a.awaitDriver(driver, true)
	a.checkUntouched(tasks)
	a.stop()
	awaitNoProcess(t, a.dir) // an agent that destroys everything has left none
}

func TestExternalPlugin_WithAFaultStopsNoAgent(t *testing.T) {
	t.Parallel()
	a := externalAgent(t)
	for name, text := range map[string]string{
		"nothing": "#!/bin/sh\necho hello, world\n",
		"licence": "#!/bin/sh\necho no licence >&2\nexit 3\n",
	} {
		path := filepath.Join(a.pluginDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	a.start()
	for name, said := range map[string]string{"nothing": "hello, world", "licence": "no licence"} {
		eventually(t, "the node shows why "+name+" does not run", func() error {
			n, err := a.node()
			if err != nil {
				return err
			}
			d := n.Drivers[name]
			if d == nil || d.Detected || !strings.Contains(d.HealthDescription, said) {
				return fmt.Errorf("it is %+v", d)
			}
			return nil
		})
	}
	a.stop()
	awaitNoProcess(t, a.pluginDir())
}

func TestExternalDevice_ReachesATask(t *testing.T) {
	t.Parallel()
	a := externalAgent(t, "example-device")
	for _, name := range []string{"a", "b"} {
		path := filepath.Join(a.dir, "devices", name)
		if err := os.WriteFile(path, []byte("this is "+name+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	a.start()
	a.must("job", "run", a.writeFile("device.hcl", `
job "device" {
  group "group" {
    count = 2
    task "task" {
      driver = "exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "cat /tmp/task-mounts/*; exec sleep 1000"]
      }
      resources {
        device "nomad/file/mock" {}
      }
    }
  }
}`))
	said := map[string]bool{}
	for _, alloc := range a.awaitRunning("device", 2) {
		said[a.awaitOutput(alloc.ID, "this is ")] = true
	}
	if !said["this is a\n"] || !said["this is b\n"] {
		t.Errorf("the tasks have the devices %v", said)
	}
	process := a.pluginProcess("example-device")
	a.kill()
	a.start()
	eventually(t, "another process of the plugin", func() error {
		if again := a.pluginProcess("example-device"); again == process {
			return fmt.Errorf("it is still %d", again)
		}
		return nil
	})
	a.awaitRunning("device", 2)
	a.must("job", "stop", "device")
}

// An agent that is killed while it asks its plugins leaves no process of them for long.
func TestExternalPlugin_OfAKilledStartEnds(t *testing.T) {
	t.Parallel()
	a := externalAgent(t)
	path := filepath.Join(a.pluginDir(), "silent")
	if err := os.WriteFile(path, []byte("#!/bin/sh\nwhile sleep 1; do :; done\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	awaitPlugins := func(want int) {
		t.Helper()
		eventually(t, fmt.Sprintf("%d processes of the plugin, named by files", want), func() error {
			pids := programsOf(path)
			files, _ := filepath.Glob(a.data("plugins", "plugin-dir*", "process"))
			if len(pids) != want || len(files) != want {
				return fmt.Errorf("the processes are %v, the files %q", pids, files)
			}
			return nil
		})
	}
	a.launch()
	awaitPlugins(1)
	a.kill()
	awaitPlugins(1)
	a.launch()
	awaitPlugins(2)
	began := time.Now()
	a.stop() // the start waits for the plugin
	if took := time.Since(began); took > 45*time.Second {
		t.Errorf("the agent stopped after %s", took)
	}
	awaitPlugins(1) // that of the agent that was killed
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	a.start()
	awaitPlugins(0)
	awaitNoProcess(t, path)
}

// awaitNoProcess waits until no process has the path in its command line. A process that is killed may still
// have it for a moment.
func awaitNoProcess(t *testing.T, path string) {
	t.Helper()
	eventually(t, "no process names "+path, func() error {
		if left := processesOf(path); len(left) > 0 {
			return fmt.Errorf("processes %v do", left)
		}
		return nil
	})
}
