package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/structs"
)

// buildDriver builds the CSI driver of another project from its module.
func buildDriver(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "hostpathplugin")
	build := exec.Command("go", "build", "-ldflags", "-X main.version=v1.7.2", "-o", path,
		"github.com/kubernetes-csi/csi-driver-host-path/cmd/hostpathplugin")
	build.Dir = "../driver"
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the driver: %v\n%s", err, out)
	}
	return path
}

const driverJob = `
job "driver" {
  type = "system"
  group "plugin" {
    task "driver" {
      driver = "exec"
      config {
        command = "/opt/driver/hostpathplugin"
        args    = ["--endpoint", "${CSI_ENDPOINT}", "--nodeid", "${node.unique.id}", "--v=5",
          "--statedir", "${BERTH_PLUGIN_DATA}", "--drivername", "hostpath.csi.k8s.io"]
      }
      csi_plugin {
        id   = "driver"
        type = "monolith"
      }
    }
  }
}`

const driverVolume = `
id           = "counter"
name         = "counter"
type         = "csi"
plugin_id    = "driver"
capacity_min = "16MiB"
capacity_max = "32MiB"
capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}`

// chrootConfig is a configuration in which isolated tasks also see the directory of the driver.
func chrootConfig(driver string) string {
	var b strings.Builder
	b.WriteString("client {\n  drivers {\n    exec {\n      chroot_env = {\n")
	for _, dir := range []string{"/bin", "/etc", "/lib", "/lib64", "/sbin", "/usr"} {
		if _, err := os.Stat(dir); err == nil {
			fmt.Fprintf(&b, "        %q = %q\n", dir, dir)
		}
	}
	fmt.Fprintf(&b, "        %q = \"/opt/driver\"\n      }\n    }\n  }\n}\n", driver)
	return b.String()
}

// fileSystemSize is the size of the file system of a path, as df has it.
func (a *agent) fileSystemSize(path string) uint64 {
	a.t.Helper()
	blocks, err := blocksOf(path)
	if err != nil {
		a.t.Fatal(err)
	}
	return blocks
}

func blocksOf(path string) (uint64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	return st.Blocks, nil
}

// sizeInTask is fileSystemSize for a path in a task of the allocation. A task starts processes that soon end.
func (a *agent) sizeInTask(alloc, path string) (blocks uint64) {
	a.t.Helper()
	eventually(a.t, fmt.Sprintf("a process of allocation %s sees %s", alloc, path), func() error {
		for _, pid := range a.taskTree() {
			environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
			if !bytes.Contains(environ, []byte("BERTH_ALLOC_ID="+alloc)) {
				continue
			}
			var err error
			blocks, err = blocksOf(fmt.Sprintf("/proc/%d/root%s", pid, path))
			if err == nil {
				return nil
			}
		}
		return errors.New("none sees it")
	})
	return blocks
}

// driverSizes are the sizes of the volumes that the driver itself lists.
func (a *agent) driverSizes() (sizes []int64) {
	a.t.Helper()
	listed, err := get[structs.CSIVolumeExternalResponse](a, "/v1/volumes/external?plugin_id=driver")
	if err != nil {
		a.t.Fatal(err)
	}
	for _, v := range listed.Volumes {
		sizes = append(sizes, v.CapacityBytes)
	}
	return sizes
}

func TestDriver_OfAnotherProject(t *testing.T) {
	t.Parallel()
	a := newAgent(t, "one", "-server", "-client")
	driver := filepath.Join(a.dir, "driver")
	if err := os.Mkdir(driver, 0o755); err != nil {
		t.Fatal(err)
	}
	buildDriver(t, driver)
	a.args = append(a.args, "-config", a.writeFile("driver-agent.hcl", chrootConfig(driver)))
	a.start()
	a.must("job", "run", a.writeFile("driver.hcl", driverJob))
	a.healthyNodes("driver", 1)
	a.must("volume", "create", a.writeFile("volume.hcl", driverVolume))
	a.must("job", "run", example(t, "counter.hcl"))
	first := a.awaitRunning("counter", 1)[0]
	eventually(t, "a line is written", func() error {
		if !strings.Contains(a.logs(first.ID), first.ID) {
			return fmt.Errorf("none")
		}
		return nil
	})
	// The driver requests the node's step of an expansion, and checks the path that it receives. Its volumes
	// are directories of the node's own file system, so nothing visible in an allocation grows: the size is
	// only the driver's report. TestExpand_GrowsVolumesInUse has real file systems.
	whole := a.fileSystemSize(a.dir)
	if got := a.sizeInTask(first.ID, "/data"); got != whole {
		t.Errorf("the allocation sees %d blocks, the node %d: the driver no longer mounts directories",
			got, whole)
	}
	if got := a.driverSizes(); !slices.Equal(got, []int64{16 << 20}) {
		t.Errorf("before the expansion the driver lists %v", got)
	}
	a.must("volume", "create",
		a.writeFile("larger.hcl", strings.Replace(driverVolume, "16MiB", "24MiB", 1)))
	out := a.must("volume", "status", "counter")
	if !strings.Contains(out, "24 MiB") || strings.Contains(out, "Grows to") {
		t.Errorf("status after the expansion:\n%s", out)
	}
	if got := a.driverSizes(); !slices.Equal(got, []int64{24 << 20}) {
		t.Errorf("after the expansion the driver lists %v", got)
	}
	if got := a.sizeInTask(first.ID, "/data"); got != whole {
		t.Errorf("the allocation sees %d blocks, the node %d", got, whole)
	}
	a.awaitMoreOutput(first.ID)
	plugin := a.awaitRunning("driver", 1)[0].ID
	for _, rpc := range []string{"ControllerExpandVolume", "NodeExpandVolume"} {
		eventually(t, "the driver logs the call of "+rpc, func() error {
			if log := a.must("alloc", "logs", "-stderr", plugin); !strings.Contains(log, rpc) {
				return errors.New("it has not")
			}
			return nil
		})
	}
	a.must("job", "stop", "counter")
	a.awaitFree("counter")
	a.must("job", "run", example(t, "counter.hcl"))
	second := a.awaitRunning("counter", 1)[0]
	eventually(t, "the data survived", func() error {
		var n int
		if _, err := fmt.Sscanf(a.logs(second.ID), "found %d lines", &n); err != nil || n < 1 {
			return fmt.Errorf("found %d lines: %v", n, err)
		}
		return nil
	})
	a.must("job", "stop", "-purge", "counter")
	a.awaitFree("counter")
	if left := stagedBelow(a.dir); len(left) > 0 {
		t.Errorf("mounts of volumes after the last claim has ended: %v", left)
	}
	a.mustEventually("volume", "delete", "counter") // once it is detached

	a.must("volume", "create", a.writeFile("fresh.hcl", strings.ReplaceAll(driverVolume, "counter", "fresh")))
	a.must("job", "run", a.writeFile("writer.hcl", unprivilegedJob("writer", `source = "fresh"`)))
	a.awaitOutput(a.awaitRunning("writer", 1)[0].ID, unprivilegedOutput)
	a.must("job", "stop", "-purge", "writer")
	a.awaitFree("fresh")
	a.mustEventually("volume", "delete", "fresh")
	a.must("job", "stop", "-purge", "driver")
}

// unprivilegedOutput is the output of the task of unprivilegedJob once it has written to its volume.
const unprivilegedOutput = "written: fine nobody:700"

// unprivilegedJob is a job whose task runs as nobody and writes to a volume, which the line volume names by
// its source or asks for by its class.
func unprivilegedJob(id, volume string) string {
	return `
job "` + id + `" {
  group "g" {
    volume "data" {
      type            = "csi"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
      ` + volume + `
      ownership {
        owner = "nobody"
        mode  = "0700"
      }
    }
    task "t" {
      driver = "exec"
      user   = "nobody"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo fine > /data/f && echo written: $(cat /data/f) $(stat -c %U:%a /data); sleep 86400"]
      }
      volume_mount {
        volume      = "data"
        destination = "/data"
      }
    }
  }
}
`
}
