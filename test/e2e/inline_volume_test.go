package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// scratchJob writes into an inline volume. Its output tells what the volume had at its start.
const scratchJob = `
job "sort" {
  group "g" {
    update {
      min_healthy_time = "1s"
    }
    volume "tmp" {
      type       = "csi"
      lifecycle  = "inline"
      plugin_id  = "driver"
      parameters = { note = "scratch" }
    }
    task "t" {
      driver = "exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo files: $(ls /scratch | wc -l); while :; do date >> /scratch/f && echo x; sleep 1; done"]
      }
      volume_mount {
        volume      = "tmp"
        destination = "/scratch"
      }
      kill_timeout = "2s"
    }
  }
}`

// A driver of another project makes a volume for each allocation, without a volume of the servers, and
// deletes it at the end, also after the agent was killed.
func TestInlineVolume_OfAnotherProject(t *testing.T) {
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
	a.must("plugin", "config", "-inline", "allow", "driver")
	a.must("job", "run", a.writeFile("sort.hcl", scratchJob))
	first := a.awaitRunning("sort", 1)[0]
	a.awaitOutput(first.ID, "files: 0", "x")
	if n := len(a.driverSizes()); n != 1 {
		t.Errorf("the driver has %d volumes", n)
	}
	if out := a.must("alloc", "status", first.ID); !strings.Contains(out, "Inline volumes") {
		t.Errorf("the status of the allocation lacks its inline volume:\n%s", out)
	}

	a.kill()
	a.start()
	a.awaitMoreOutput(first.ID)
	plugin := a.awaitRunning("driver", 1)[0].ID
	log := a.must("alloc", "logs", "-stderr", plugin)
	for rpc, want := range map[string]int{
		"Controller/CreateVolume":  0,
		"Node/NodeStageVolume":     0,
		"Node/NodePublishVolume":   1,
		"Node/NodeUnpublishVolume": 0,
	} {
		if got := strings.Count(log, "GRPC call: /csi.v1."+rpc); got != want {
			t.Errorf("%s was called %d times, want %d", rpc, got, want)
		}
	}

	// The replacement gets an empty volume of its own.
	a.must("alloc", "stop", first.ID)
	eventually(t, "another allocation runs", func() error {
		for _, alloc := range a.awaitRunning("sort", 1) {
			if alloc.ID == first.ID {
				return errors.New("the first one still runs")
			}
			a.awaitOutput(alloc.ID, "files: 0")
		}
		return nil
	})

	a.must("job", "stop", "-purge", "sort")
	eventually(t, "nothing of the volumes is left", func() error {
		if n, left := len(a.driverSizes()), stagedBelow(a.dir); n > 0 || len(left) > 0 {
			return fmt.Errorf("the driver has %d volumes, and %v are mounted", n, left)
		}
		return nil
	})
	a.must("job", "stop", "-purge", "driver")
}
