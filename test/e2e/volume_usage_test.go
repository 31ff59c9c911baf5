package e2e

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"berth/client/csi/helper"
	"berth/structs/storage"
)

// A node tells how full its volumes are by its plugin, and the program of the agent asks a file system.
func TestVolumeUsage_ShowsHowFullAVolumeIs(t *testing.T) {
	t.Parallel()
	a := newAgent(t, "solo", "-server", "-client", "-bootstrap-expect", "1")
	a.args = append(a.args, "-config", a.writeFile("stats.hcl", `
client {
  volume_stats_interval = "10s"
}
telemetry {
  prometheus_metrics = true
}
`))
	a.start()
	a.must("job", "run", example(t, "hostpath.hcl"))
	a.healthyNodes("hostpath", 1)
	a.createVolume(volumeFile{id: "data", image: true})
	a.must("job", "run", "-detach", a.writeFile("fill.hcl", `
job "fill" {
  group "g" {
    volume "data" {
      type            = "csi"
      source          = "data"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
    }
    task "t" {
      driver = "exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "dd if=/dev/zero of=/data/f bs=1M count=3 && sync && sleep 86400"]
      }
      volume_mount {
        volume      = "data"
        destination = "/data"
      }
    }
  }
}
`))
	a.awaitRunning("fill", 1)
	eventually(t, "the use of the volume is known", func() error {
		all, err := get[storage.VolumeUsageResponse](a, "/v1/volume/csi/data/usage")
		if err != nil || len(all.Usages) != 1 || all.Usages[0].Bytes == nil || all.Usages[0].Bytes.Used < 3<<20 {
			text, _ := json.Marshal(all)
			return fmt.Errorf("got %s, %w", text, err)
		}
		return nil
	})
	for _, command := range [][]string{{"volume", "status", "data"}, {"volume", "list", "-sort", "usage"}} {
		if out := a.must(command...); !strings.Contains(out, "Used %") {
			t.Errorf("%v: %s", command, out)
		}
	}
	const metric = `kubelet_volume_stats_used_bytes{namespace="default",persistentvolumeclaim="data"}`
	if out := a.must("operator", "metrics", "-format", "prometheus"); !strings.Contains(out, metric) {
		t.Errorf("the metrics have no %s", metric)
	}

	pool := helper.New([]string{binary, "executor"})
	question := helper.StatfsQuestion{Paths: []string{t.TempDir()}}
	measure, err := helper.Start[helper.StatfsAnswer](pool, question, helper.StatfsArg)
	if err != nil {
		t.Fatal(err)
	}
	answer, open := <-measure.Answers
	if !open || answer.Bytes == 0 {
		t.Errorf("statfs: %+v", answer)
	}
	for range measure.Answers { // the end of the process
	}
	out, err := exec.Command(binary, "executor", helper.FitrimArg, "/proc").Output()
	var trimmed helper.FitrimAnswer
	if err != nil || json.Unmarshal(out, &trimmed) != nil || trimmed.Unsupported == "" {
		t.Errorf("fitrim: %s, %v", out, err)
	}
	for _, job := range []string{"fill", "hostpath"} {
		a.must("job", "stop", "-purge", job)
	}
}
