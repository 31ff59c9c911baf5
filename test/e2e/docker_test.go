package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"berth/client/drivers/docker/dockertest"
	"berth/structs"
)

// vendorImage is that of the example: a CSI driver of another project and the programs that it runs.
const vendorImage = "csi-driver-host-path:v1.7.2"

// importVendor gives a daemon an image as that of the example.
func importVendor(t *testing.T, d *dockertest.Daemon, ref string) {
	t.Helper()
	files := map[string]string{"/hostpathplugin": buildDriver(t, t.TempDir())}
	for _, name := range []string{"mount", "umount", "findmnt", "losetup", "sh"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		files[path] = path
	}
	d.ImportFiles(ref, files,
		`ENTRYPOINT ["/hostpathplugin"]`, "ENV PATH=/usr/sbin:/usr/bin:/sbin:/bin")
}

// dockerAgent starts an agent whose containers run at a daemon. settings are more of its client.
func dockerAgent(t *testing.T, d *dockertest.Daemon, settings ...string) *agent {
	t.Helper()
	a := newDockerAgent(t, d, settings...)
	a.start()
	return a
}

// newDockerAgent makes an agent, not started yet, whose containers run at a daemon.
func newDockerAgent(t *testing.T, d *dockertest.Daemon, settings ...string) *agent {
	t.Helper()
	guarded.watch(t, d.Dir())
	a := newAgent(t, "one", "-server", "-client")
	a.args = append(a.args, "-config", a.writeFile("docker-agent.hcl", fmt.Sprintf(`
client {
  drivers {
    docker {
      endpoint = %q
    }
  }
  %s
}`, d.Endpoint(), strings.Join(settings, "\n"))))
	return a
}

// vendorJob is the example's job, as a file.
func vendorJob(t *testing.T, a *agent, name string, edits ...string) string {
	t.Helper()
	src, err := os.ReadFile(example(t, "docker-hostpath.hcl"))
	if err != nil {
		t.Fatal(err)
	}
	return a.writeFile(name, strings.NewReplacer(edits...).Replace(string(src)))
}

// dockerVolume is a volume of the example's plugin.
var dockerVolume = strings.Replace(driverVolume, `"driver"`, `"docker-hostpath"`, 1)

// dockerCounter is a container that appends to a volume.
const dockerCounter = `
job "counter" {
  group "g" {
    volume "data" {
      type            = "csi"
      source          = "counter"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
    }
    task "counter" {
      driver = "docker"
      config {
        image        = "program:1"
        args         = ["list:/data", "make:/data/${NOMAD_ALLOC_ID}", "count:100000 50ms"]
        network_mode = "none"
      }
      volume_mount {
        volume      = "data"
        destination = "/data"
      }
      kill_timeout = "2s"
      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}`

// TestDocker_RunsAVendorsPlugin runs the example, and a container with a volume of it. The agent is killed
// meanwhile.
func TestDocker_RunsAVendorsPlugin(t *testing.T) {
	t.Parallel()
	d := dockertest.Start(t, "--live-restore")
	importVendor(t, d, vendorImage)
	d.Import("program:1")
	a := dockerAgent(t, d)
	a.must("job", "run", example(t, "docker-hostpath.hcl"))
	a.healthyNodes("docker-hostpath", 1)
	a.must("volume", "create", a.writeFile("volume.hcl", dockerVolume))
	job := a.writeFile("counter.hcl", dockerCounter)
	a.must("job", "run", job)
	first := a.awaitRunning("counter", 1)[0]
	a.awaitMoreOutput(first.ID)
	processes := d.Processes()

	a.kill()
	a.start()
	a.healthyNodes("docker-hostpath", 1)
	again := a.awaitRunning("counter", 1)[0]
	if again.ID != first.ID || again.TaskStates["counter"].Restarts != 0 {
		t.Errorf("allocation %s with %d restarts; was %s", again.ID, again.TaskStates["counter"].Restarts, first.ID)
	}
	awaitProcesses(t, d, processes)
	a.awaitMoreOutput(first.ID)
	d.Kill()
	d.Run()
	a.awaitMoreOutput(first.ID)
	if got := a.awaitRunning("counter", 1)[0]; got.ID != first.ID || got.TaskStates["counter"].Restarts != 0 {
		t.Errorf("after the daemon was killed: allocation %s with %d restarts", got.ID,
			got.TaskStates["counter"].Restarts)
	}

	a.must("job", "stop", "-purge", "counter")
	a.awaitFree("counter")
	a.must("job", "run", "-detach", job) // the node may still know that the daemon was away
	second := a.awaitRunning("counter", 1)[0]
	eventually(t, "the data is there", func() error {
		if out := a.logs(second.ID); !strings.Contains(out, "/data/"+first.ID) {
			return fmt.Errorf("the volume has %q", out)
		}
		return nil
	})
	a.stopAndCheckClean([]string{"counter"}, "counter")
	a.mustEventually("volume", "delete", "counter") // once it is detached
	a.must("job", "stop", "-purge", "docker-hostpath")
}

// TestDocker_RunsAVendorsPluginInTwoJobs: the driver reads its records at its start only, so the node half
// starts after the creation of the volume.
func TestDocker_RunsAVendorsPluginInTwoJobs(t *testing.T) {
	t.Parallel()
	d := dockertest.Start(t)
	importVendor(t, d, vendorImage)
	d.Import("program:1")
	a := dockerAgent(t, d)
	controller := vendorJob(t, a, "controller.hcl", `job "docker-hostpath"`, `job "controller"`,
		`"system"`, `"service"`, `"monolith"`, `"controller"`)
	node := vendorJob(t, a, "node.hcl", `job "docker-hostpath"`, `job "nodes"`, `"monolith"`, `"node"`)
	a.must("job", "run", "-detach", controller)
	a.awaitRunning("controller", 1)
	a.must("volume", "create", "-timeout", "1m", a.writeFile("volume.hcl", dockerVolume))
	a.must("job", "run", node)
	a.healthyNodes("docker-hostpath", 1)
	a.must("job", "run", a.writeFile("counter.hcl", dockerCounter))
	alloc := a.awaitRunning("counter", 1)[0]
	a.awaitMoreOutput(alloc.ID)
	a.stopAndCheckClean([]string{"counter"}, "counter")
	a.must("job", "stop", "-purge", "nodes")
	a.must("job", "stop", "-purge", "controller")
}

// TestDocker_RunsTheExample runs the container of the example, with another image under its name.
func TestDocker_RunsTheExample(t *testing.T) {
	t.Parallel()
	d := dockertest.Start(t)
	d.Import("busybox:1.36")
	a := dockerAgent(t, d)
	src, err := os.ReadFile(example(t, "docker.hcl"))
	if err != nil {
		t.Fatal(err)
	}
	command := `["-c", "while date; do sleep 10; done"]`
	if !strings.Contains(string(src), command) {
		t.Fatal("the example has another command")
	}
	a.must("job", "run", a.writeFile("docker.hcl",
		strings.Replace(string(src), command, `["out:tick", "count:100000 50ms"]`, 1)))
	alloc := a.awaitRunning("clock", 1)[0]
	a.awaitMoreOutput(alloc.ID)
	if out := a.must("alloc", "status", "-stats", alloc.ID); !strings.Contains(out, "MiB") {
		t.Errorf("its usage:\n%s", out)
	}
	a.must("job", "stop", "-purge", "clock")
}

// containerWithDevice reports its device and ends when it is told to.
const containerWithDevice = `
job "misc" {
  group "g" {
    count = 2
    restart {
      attempts = 3
      delay    = "1s"
      mode     = "fail"
    }
    task "t" {
      driver = "docker"
      config {
        image = "program:1"
        args = [
          "env:BERTH_DEVICES_TEST_CHAR_MISC", "device:${BERTH_DEVICES_TEST_CHAR_MISC}", "list:DIR",
          "out:reported", "await:/alloc/data/end", "unlink:/alloc/data/end", "exit:1",
        ]
        network_mode = "none"
      }
      resources {
        cpu    = 20
        memory = 32
        device "test/char/misc" {}
      }
    }
  }
}`

// TestDocker_GivesContainersTheirDevices: each of two containers has one device of a group, with the group's
// permissions and no other, also after a crash of the agent and after a restart of the task.
func TestDocker_GivesContainersTheirDevices(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("/tmp", "bdev-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	for i, device := range []string{"/dev/fuse", "/dev/loop-control"} { // no container has them without a demand
		if err := os.Symlink(device, filepath.Join(dir, fmt.Sprintf("misc%d", i))); err != nil {
			t.Fatal(err)
		}
	}
	d := dockertest.Start(t)
	d.Import("program:1")
	a := dockerAgent(t, d, fmt.Sprintf(`
device "test/char/misc" {
  paths       = ["%s/misc*"]
  permissions = "r"
}`, dir))
	a.must("job", "run", "-detach", a.writeFile("misc.hcl", strings.Replace(containerWithDevice, "DIR", dir, 1)))
	reports := map[string]string{}
	for _, alloc := range a.awaitRunning("misc", 2) {
		out := a.awaitOutput(alloc.ID, "reported\n")
		row := decode[structs.Allocation](t, a.must("alloc", "status", "-json", alloc.ID))
		given := row.AllocatedResources.Tasks["t"].Devices
		if len(given) != 1 || len(given[0].DeviceIDs) != 1 {
			t.Fatalf("allocation %s has the devices %+v", alloc.ID, given)
		}
		device := given[0].DeviceIDs[0]
		reports[alloc.ID] = fmt.Sprintf("%s\n%s r\n%s\nreported\n", device, device, device)
		if out != reports[alloc.ID] {
			t.Errorf("allocation %s says %q, want %q", alloc.ID, out, reports[alloc.ID])
		}
	}

	a.kill()
	a.start()
	for _, alloc := range a.awaitRunning("misc", 2) {
		restarts := alloc.TaskStates["t"].Restarts
		if out := a.awaitOutput(alloc.ID, "reported\n"); out != reports[alloc.ID] || restarts != 0 {
			t.Errorf("after a crash of the agent allocation %s says %q, with %d restarts", alloc.ID, out, restarts)
		}
		err := os.WriteFile(a.data("alloc", alloc.ID, "alloc", "data", "end"), nil, 0o644)
		if err != nil {
			t.Fatal(err)
		}
	}
	for id, report := range reports {
		a.awaitOutput(id, report+report)
	}
	a.must("job", "stop", "-purge", "misc")
}
