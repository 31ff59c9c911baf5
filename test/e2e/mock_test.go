package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const mockJob = `
job "mock" {
  type = "system"
  group "plugin" {
    task "driver" {
      driver = "exec"
      config {
        command = "/opt/driver/mock"
        args    = ["-endpoint", "${CSI_ENDPOINT}", "-attach-limit", "1"]
      }
      csi_plugin {
        id   = "mock"
        type = "monolith"
      }
    }
  }
}`

const mockVolume = `
id           = "data"
name         = "data"
plugin_id    = "mock"
capacity_min = "16MiB"
capacity_max = "32MiB"
mutable_parameters = {
  iops = "100"
  tier = "cold"
}
capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}`

// The mock driver of Kubernetes' storage tests has a topology, a limit of one volume for the node, and
// parameters that can change. A task without rights of root writes to its volumes.
func TestMock_HasATopologyALimitAndParametersThatChange(t *testing.T) {
	t.Parallel()
	a := newAgent(t, "one", "-server", "-client")
	dir := filepath.Join(a.dir, "driver")
	err := os.Mkdir(dir, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	buildMock(t, dir)
	a.args = append(a.args, "-config", a.writeFile("mock-agent.hcl", chrootConfig(dir)))
	a.start()
	a.must("job", "run", a.writeFile("mock.hcl", mockJob))
	a.healthyNodes("mock", 1)
	plugin := a.awaitRunning("mock", 1)[0].ID

	a.must("volume", "create", a.writeFile("volume.hcl", mockVolume))
	a.awaitStatus("data", "some-mock-node")
	a.awaitOutput(plugin, `CreateVolume {"name":"data-`) // and what tells it from others of that name
	a.must("job", "run", a.writeFile("first.hcl", unprivilegedJob("first", `source = "data"`)))
	first := a.awaitRunning("first", 1)[0].ID
	a.awaitOutput(first, unprivilegedOutput)

	a.must("volume", "create", a.writeFile("changed.hcl", strings.Replace(mockVolume, `"100"`, `"200"`, 1)))
	a.awaitStatus("data", "iops=200")
	call := a.callOf(plugin, "ControllerModifyVolume")
	if !strings.Contains(call, `"mutable_parameters":{"iops":"200"}`) {
		t.Errorf("only the changed parameter is sent: %s", call)
	}

	// The class makes its volume where the allocation is placed, and the limit of the node is one volume.
	a.must("volume", "class", "apply", a.writeFile("class.hcl", `
name         = "fast"
plugin_id    = "mock"
binding      = "first-consumer"
reclaim      = "delete"
delete_after = "0s"
mutable_parameters = { iops = "300" }
`))
	asks := "class = \"fast\"\n      size = \"16MiB\""
	a.must("job", "run", "-detach", a.writeFile("second.hcl", unprivilegedJob("second", asks)))
	eventually(t, "the second job has no place", func() error {
		out, err := a.run("job", "why", "second")
		if err == nil && !strings.Contains(out, "CSI plugin mock has its limit of 1 volumes on this node") {
			err = fmt.Errorf("why says:\n%s", out)
		}
		return err
	})
	a.must("job", "stop", "first")
	a.awaitFree("data")
	second := a.awaitRunning("second", 1)[0].ID
	a.awaitOutput(second, unprivilegedOutput)
	call = a.callOf(plugin, "CreateVolume")
	for _, want := range []string{`"iops":"300"`, `"requisite":[{"segments":{"io.kubernetes.storage.mock/node"`} {
		if !strings.Contains(call, want) {
			t.Errorf("%s is not in %s", want, call)
		}
	}

	a.must("job", "stop", "-purge", "second")
	a.mustEventually("volume", "delete", "data")
	eventually(t, "the plugin has deleted both volumes", func() error {
		if n := strings.Count(a.must("alloc", "logs", plugin), "DeleteVolume {"); n != 2 {
			return fmt.Errorf("it has deleted %d", n)
		}
		return nil
	})
	a.must("job", "stop", "-purge", "mock")
}

// buildMock builds the mock driver of Kubernetes' storage tests from its module.
func buildMock(t *testing.T, dir string) {
	t.Helper()
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "mock"), ".")
	build.Dir = "../mock"
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	if err != nil {
		t.Fatalf("building the mock: %v\n%s", err, out)
	}
}

// callOf waits for a call of the mock, and returns the last line that its log has for it.
func (a *agent) callOf(plugin, rpc string) (line string) {
	a.t.Helper()
	eventually(a.t, "the log of the plugin has "+rpc, func() error {
		for l := range strings.Lines(a.must("alloc", "logs", plugin)) {
			if strings.HasPrefix(l, rpc+" ") {
				line = l
			}
		}
		if line == "" {
			return errors.New("it has not")
		}
		return nil
	})
	return line
}
