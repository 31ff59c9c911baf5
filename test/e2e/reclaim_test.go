package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// reclaimedJob has a volume that its class deletes. The volume block has a further line.
const reclaimedJob = `
job %q {
  group "g" {
    volume "data" {
      type  = "csi"
      class = "scratch"
      size  = "32MiB"
      %s
    }
    task "t" {
      driver = "exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo start >> /data/f && echo starts: $(wc -l < /data/f); sleep 86400"]
      }
      volume_mount {
        volume      = "data"
        destination = "/data"
      }
    }
  }
}
`

// The shipped driver deletes the volume of a purged job once its time has come, and that of an allocation
// with the allocation. A volume that berth no longer knows is listed as one of the driver's own.
func TestReclaim_DeletesVolumesAtTheDriver(t *testing.T) {
	t.Parallel()
	a := newAgent(t, "solo", "-server", "-client", "-bootstrap-expect", "1")
	a.start()
	a.must("job", "run", example(t, "hostpath.hcl"))
	a.healthyNodes("hostpath", 1)
	a.must("volume", "class", "apply", a.writeFile("class.hcl", `
name         = "scratch"
plugin_id    = "hostpath"
reclaim      = "delete"
delete_after = "1s"
parameters   = { type = "image", provisioning = "thin" }
`))

	a.must("job", "run", "-detach", a.writeFile("db.hcl", fmt.Sprintf(reclaimedJob, "db", "")))
	a.awaitOutput(a.awaitRunning("db", 1)[0].ID, "starts: 1")
	a.awaitAtDriver(1)
	a.must("job", "stop", "-purge", "db")
	a.awaitAtDriver(0)

	build := fmt.Sprintf(reclaimedJob, "build", `lifecycle = "alloc"`)
	a.must("job", "run", "-detach", a.writeFile("build.hcl", build))
	first := a.awaitRunning("build", 1)[0].ID
	a.awaitOutput(first, "starts: 1")
	a.must("alloc", "stop", "-detach", first)
	eventually(t, "another allocation runs", func() error {
		if a.awaitRunning("build", 1)[0].ID == first {
			return fmt.Errorf("allocation %s still runs", first)
		}
		return nil
	})
	a.awaitOutput(a.awaitRunning("build", 1)[0].ID, "starts: 1") // its volume is empty
	a.awaitAtDriver(1)
	a.must("job", "stop", "-purge", "build")
	a.awaitAtDriver(0)

	a.createVolume(volumeFile{id: "stray", image: true})
	a.must("volume", "deregister", "stray")
	if listed := a.atDriver(); len(listed) != 1 || strings.Contains(listed[0], "stray") {
		t.Errorf("the driver lists %q", listed)
	}
	a.must("job", "stop", "-purge", "hostpath")
}

// atDriver returns the lines of the volumes that the driver lists.
func (a *agent) atDriver() []string {
	a.t.Helper()
	out := a.must("volume", "status", "-external", "hostpath")
	var volumes []string
	for line := range strings.Lines(out) {
		if strings.Contains(line, "vol-") {
			volumes = append(volumes, line)
		}
	}
	return volumes
}

// awaitAtDriver waits until the driver has a number of volumes.
func (a *agent) awaitAtDriver(want int) {
	a.t.Helper()
	eventually(a.t, fmt.Sprintf("the driver has %d volumes", want), func() error {
		listed := a.atDriver()
		if len(listed) != want {
			return fmt.Errorf("it lists %q", listed)
		}
		return nil
	})
}
