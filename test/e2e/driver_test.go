package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// buildDriver builds the CSI driver that nobody here wrote, from its module.
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

// chroot is a configuration in which isolated tasks also see the directory of the driver.
func chroot(driver string) string {
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

func TestADriverNobodyHereWrote(t *testing.T) {
	t.Parallel()
	a := newAgent(t, "one", "-server", "-client")
	driver := filepath.Join(a.dir, "driver")
	if err := os.Mkdir(driver, 0o755); err != nil {
		t.Fatal(err)
	}
	buildDriver(t, driver)
	a.args = append(a.args, "-config", a.file("driver-agent.hcl", chroot(driver)))
	a.start()
	a.must("job", "run", a.file("driver.hcl", driverJob))
	a.healthyNodes("driver", 1)
	a.must("volume", "create", a.file("volume.hcl", driverVolume))
	a.must("job", "run", example(t, "counter.hcl"))
	first := a.running("counter", 1)[0]
	eventually(t, "a line is written", func() error {
		if !strings.Contains(a.logs(first.ID), first.ID) {
			return fmt.Errorf("none")
		}
		return nil
	})
	// It asks for the node's step of an expansion, and checks the path that it is given.
	a.must("volume", "create", a.file("larger.hcl", strings.Replace(driverVolume, "16MiB", "24MiB", 1)))
	out := a.must("volume", "status", "counter")
	if !strings.Contains(out, "24 MiB") || strings.Contains(out, "Grows to") {
		t.Errorf("status after the expansion:\n%s", out)
	}
	log := a.must("alloc", "logs", "-stderr", a.running("driver", 1)[0].ID)
	for _, rpc := range []string{"ControllerExpandVolume", "NodeExpandVolume"} {
		if !strings.Contains(log, rpc) {
			t.Errorf("%s was not called", rpc)
		}
	}
	a.must("job", "stop", "counter")
	a.free("counter")
	a.must("job", "run", example(t, "counter.hcl"))
	second := a.running("counter", 1)[0]
	eventually(t, "the data survived", func() error {
		var n int
		if _, err := fmt.Sscanf(a.logs(second.ID), "found %d lines", &n); err != nil || n < 1 {
			return fmt.Errorf("found %d lines: %v", n, err)
		}
		return nil
	})
	a.must("job", "stop", "-purge", "counter")
	a.free("counter")
	if left := stagedBelow(a.dir); len(left) > 0 {
		t.Errorf("mounts of volumes after the last claim is gone: %v", left)
	}
	a.must("volume", "delete", "counter")
	a.must("job", "stop", "-purge", "driver")
}
