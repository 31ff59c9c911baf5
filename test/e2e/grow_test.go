package e2e

import (
	"fmt"
	"testing"
	"time"

	"berth/structs"
)

// A task fills the file system of its volume, which grows under it, and no further than its rule says. It is
// xfs, because not every machine lets a mounted ext4 grow.
func TestGrow_AVolumeGrowsUnderItsTask(t *testing.T) {
	t.Parallel()
	a := newAgent(t, "solo", "-server", "-client", "-bootstrap-expect", "1")
	a.args = append(a.args, "-config",
		a.writeFile("stats.hcl", "client {\n  volume_stats_interval = \"10s\"\n}\n"))
	a.start()
	a.must("job", "run", example(t, "hostpath.hcl"))
	a.healthyNodes("hostpath", 1)
	a.must("volume", "class", "apply", a.writeFile("class.hcl", `
name       = "fast"
plugin_id  = "hostpath"
parameters = { type = "image", provisioning = "thin" }
mount_options {
  fs_type = "xfs"
}
grow {
  at  = "60%"
  by  = "100%"
  max = "400MiB"
}
`))
	a.must("job", "run", "-detach", a.writeFile("log.hcl", `
job "log" {
  group "g" {
    volume "data" {
      type  = "csi"
      class = "fast"
      size  = "320MiB"
    }
    task "t" {
      driver = "exec"
      config {
        command = "/bin/sh"
        args = ["-c", <<EOF
head -c 200M /dev/zero > /data/first && echo first written
until head -c 100M /dev/zero > /data/second 2>/dev/null; do sleep 1; done
echo second written
sleep 86400
EOF
        ]
      }
      volume_mount {
        volume      = "data"
        destination = "/data"
      }
    }
  }
}
`))
	first := a.awaitRunning("log", 1)[0]
	a.awaitOutput(first.ID, "first written")

	// The leader asks the nodes each minute, and the expansion takes its time beside other tests.
	id := "log.g.data"
	var v *structs.CSIVolume
	within(t, 5*time.Minute, "the volume grows", func() error {
		var err error
		v, err = get[*structs.CSIVolume](a, "/v1/volume/csi/"+id)
		if err == nil && v.Capacity < 400<<20 {
			err = fmt.Errorf("it has %d bytes, %+v", v.Capacity, v.Grown)
		}
		return err
	})
	if v.Capacity != 400<<20 || v.Grown == nil || v.Grown.From != 320<<20 || v.Grown.To != 400<<20 {
		t.Errorf("the volume has %d bytes, its growth is %+v", v.Capacity, v.Grown)
	}
	a.awaitOutput(first.ID, "second written")
	if now := a.awaitRunning("log", 1)[0]; now.ID != first.ID || now.TaskStates["t"].Restarts != 0 {
		t.Errorf("the task did not run on: %s, %d restarts", now.ID, now.TaskStates["t"].Restarts)
	}
	a.awaitStatus(id, "320 MiB")

	a.must("job", "stop", "-purge", "log")
	a.awaitFree(id)
	a.mustEventually("volume", "delete", id)
	a.must("job", "stop", "-purge", "hostpath")
}
