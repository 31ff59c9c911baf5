package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"berth/structs"
)

// One job file makes a volume, grows it, leaves it with its data, gets it back, and lets it be deleted.
func TestAskedVolume_FollowsItsJob(t *testing.T) {
	t.Parallel()
	a := newAgent(t, "solo", "-server", "-client", "-bootstrap-expect", "1")
	a.start()
	a.must("job", "run", example(t, "hostpath.hcl"))
	a.healthyNodes("hostpath", 1)
	a.must("volume", "class", "apply", a.writeFile("class.hcl", `
name         = "fast"
plugin_id    = "hostpath"
reclaim      = "delete"
delete_after = "1h"
binding      = "first-consumer"
parameters = { type = "image", provisioning = "thin" }
`))
	job := func(size string) string { return a.writeFile("db.hcl", fmt.Sprintf(growingJob, size)) }

	a.mustFail(1, []string{"db.g.data[0]", "db.g.data[1]", "create", "32 MiB"}, "job", "plan", job("32MiB"))
	a.must("job", "run", "-detach", job("32MiB"))
	first := a.awaitRunning("db", 2)
	for _, alloc := range first {
		a.awaitOutput(alloc.ID, "starts: 1")
	}

	// The volumes grow below the tasks that run.
	a.must("job", "run", "-detach", job("64MiB"))
	a.awaitStatus("db.g.data[0]", "64 MiB")
	a.awaitStatus("db.g.data[1]", "64 MiB")
	eventually(t, "both allocations have the new version", func() error {
		for _, alloc := range a.awaitRunning("db", 2) {
			if alloc.JobVersion != 1 {
				return fmt.Errorf("allocation %s has version %d", alloc.ID, alloc.JobVersion)
			}
			if !slices.ContainsFunc(first, func(f *structs.AllocListStub) bool { return f.ID == alloc.ID }) {
				t.Fatalf("allocation %s has replaced one of them", alloc.ID)
			}
		}
		return nil
	})
	a.mustFail(structs.KindConflict.ExitCode(), []string{"a volume can only grow"}, "job", "run", job("32MiB"))

	a.must("job", "stop", "-purge", "db")
	a.awaitStatus("db.g.data[0]", "the job was purged")
	a.awaitStatus("db.g.data[1]", "the job was purged")
	a.must("job", "run", "-detach", job("64MiB"))
	for _, alloc := range a.awaitRunning("db", 2) {
		a.awaitOutput(alloc.ID, "starts: 2")
	}

	a.must("job", "stop", "-purge", "db")
	for _, id := range []string{"db.g.data[0]", "db.g.data[1]"} {
		a.awaitFree(id)
		a.must("volume", "delete", "-now", id)
	}
	a.must("job", "stop", "-purge", "hostpath")
}

// growingJob has two allocations, each with a volume of a size.
const growingJob = `
job "db" {
  group "g" {
    count = 2
    volume "data" {
      type      = "csi"
      class     = "fast"
      size      = %q
      per_alloc = true
      ownership {
        owner = "nobody"
      }
    }
    task "t" {
      driver = "exec"
      user   = "nobody"
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

// awaitStatus waits until the status of a volume has a text.
func (a *agent) awaitStatus(id, text string) {
	a.t.Helper()
	eventually(a.t, "volume "+id+" has "+text, func() error {
		out, err := a.run("volume", "status", id)
		if err == nil && !strings.Contains(out, text) {
			err = fmt.Errorf("its status:\n%s", out)
		}
		return err
	})
}
