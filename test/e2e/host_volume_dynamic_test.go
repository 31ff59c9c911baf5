package e2e

import (
	"fmt"
	"strings"
	"testing"

	"berth/structs/storage"
)

// keeperJob is a job that adds a line to a file of the host volume "data" each time it starts, and shows
// the file.
func (a *agent) keeperJob() string {
	return a.writeFile("keeper.hcl", `
job "keeper" {
  group "g" {
    volume "d" {
      type   = "host"
      source = "data"
    }
    task "t" {
      driver = "exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo line >> /data/log && echo $(wc -l < /data/log) lines && exec sleep 86400"]
      }
      volume_mount {
        volume      = "d"
        destination = "/data"
      }
    }
  }
}
`)
}

// agentWithDynamicVolume starts an agent with the plugin hostpath and the dynamic host volume "data".
func agentWithDynamicVolume(t *testing.T) *agent {
	t.Helper()
	a := newAgent(t, "solo", "-server", "-client", "-bootstrap-expect", "1")
	a.start()
	a.must("job", "run", example(t, "hostpath.hcl"))
	a.healthyNodes("hostpath", 1)
	a.must("volume", "create", a.writeFile("data.hcl", `
name = "data"
type = "host"

capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}
`))
	return a
}

// runKeeper runs the job until its task has shown a number of lines, and returns its allocation.
func (a *agent) runKeeper(lines int) (allocID string) {
	a.t.Helper()
	a.must("job", "run", "-detach", a.keeperJob())
	allocID = a.awaitRunning("keeper", 1)[0].ID
	a.awaitOutput(allocID, fmt.Sprintf("%d lines", lines))
	return allocID
}

func (a *agent) hostVolume() *storage.DynamicHostVolumeDetail {
	a.t.Helper()
	all := decode[[]*storage.DynamicHostVolumeStub](a.t, a.must("volume", "status", "-type", "host", "-json"))
	if len(all) != 1 {
		a.t.Fatalf("there are %d host volumes, want 1", len(all))
	}
	return decode[*storage.DynamicHostVolumeDetail](a.t,
		a.must("volume", "status", "-type", "host", "-json", all[0].ID))
}

// awaitUnused waits until no allocation uses the host volume. One that was stopped uses it until its end.
func (a *agent) awaitUnused() {
	a.t.Helper()
	eventually(a.t, "no allocation uses the host volume", func() error {
		if users := a.hostVolume().Allocations; len(users) > 0 {
			return fmt.Errorf("allocation %s does, which is %s", users[0].ID, users[0].ClientStatus)
		}
		return nil
	})
}

func TestDynamicHostVolume_KeepsTheDataOfAJob(t *testing.T) {
	t.Parallel()
	a := agentWithDynamicVolume(t)
	alloc := a.runKeeper(1)
	v := a.hostVolume()
	if v.State != storage.HostVolumeReady || len(v.Allocations) != 1 || v.Allocations[0].ID != alloc {
		t.Errorf("the volume is %s, and its allocations are %+v", v.State, v.Allocations)
	}
	if out := a.must("volume", "why", v.ID); !strings.Contains(out, "in use by 1 allocation") {
		t.Errorf("volume why shows no allocation:\n%s", out)
	}
	if out := a.must("alloc", "status", alloc); !strings.Contains(out, v.ID) {
		t.Errorf("the status of the allocation does not show its volume:\n%s", out)
	}
	a.must("job", "stop", "keeper")
	a.runKeeper(2)

	a.must("job", "stop", "-purge", "keeper")
	a.awaitUnused()
	a.must("volume", "delete", "-type", "host", "data")
	out, _ := a.run("job", "plan", a.keeperJob())
	if !strings.Contains(out, `the node has no host volume "data"`) {
		t.Errorf("without the volume the plan is\n%s", out)
	}
}
