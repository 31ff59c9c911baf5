package e2e

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"berth/structs"
)

var sha256Line = regexp.MustCompile(`sum: ([0-9a-f]{64})`)

// A volume that is made from a snapshot has the data of its moment, and not what was written after it.
func TestStory_SnapshotIsRestored(t *testing.T) {
	t.Parallel()
	a := newAgent(t, "solo", "-server", "-client", "-bootstrap-expect", "1")
	a.start()
	a.must("job", "run", example(t, "hostpath.hcl"))
	a.healthyNodes("hostpath", 1)
	a.must("volume", "create", a.snapshotVolume("data", `capacity_min = "32MiB"`))

	const write = "head -c 1048576 /dev/urandom > /data/f; sync"
	first := a.sumOf("data", write)
	a.must("volume", "snapshot", "create", "data", "before")
	a.must("volume", "snapshot", "create", "data", "before") // finds the same one
	second := a.sumOf("data", write)
	if first == second {
		t.Fatalf("two writes have the same sum %s", first)
	}

	out := a.must("volume", "snapshot", "list")
	if strings.Count(out, "before") != 1 || !strings.Contains(out, "ready") {
		t.Errorf("the list is\n%s", out)
	}
	out = a.must("volume", "snapshot", "list", "-plugin", "hostpath")
	if strings.Count(out, "before") != 1 {
		t.Errorf("the list of the plugin is\n%s", out)
	}

	a.mustFail(structs.KindInvalid.ExitCode(), []string{"its capacity must allow the 32 MiB"},
		"volume", "create", a.snapshotVolume("small", `snapshot = "before"`, `capacity_min = "16MiB"`))
	a.must("volume", "create", a.snapshotVolume("restored", `snapshot = "before"`))
	a.must("volume", "create", a.snapshotVolume("copy", `clone = "data"`))
	if got := a.sumOf("restored", "true"); got != first {
		t.Errorf("the restored volume has the sum %s, want %s", got, first)
	}
	if got := a.sumOf("copy", "true"); got != second {
		t.Errorf("the clone has the sum %s, want %s", got, second)
	}

	a.must("volume", "snapshot", "delete", "before")
	out = a.must("volume", "snapshot", "list", "-plugin", "hostpath")
	if strings.Contains(out, "before") {
		t.Errorf("the plugin still has\n%s", out)
	}
	for _, id := range []string{"data", "restored", "copy"} {
		a.must("volume", "delete", id)
	}
	a.must("job", "stop", "-purge", "hostpath")
}

// snapshotVolume writes the file of a volume of the plugin hostpath, with some arguments.
func (a *agent) snapshotVolume(id string, arguments ...string) string {
	return a.writeFile(id+".hcl", fmt.Sprintf(`
id         = %q
plugin_id  = "hostpath"
parameters = { type = "image", provisioning = "thin" }
%s
capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}
`, id, strings.Join(arguments, "\n")))
}

// sumOf runs a command in a task with a volume, and returns the sum of the file of the volume after it. The
// job has ended then.
func (a *agent) sumOf(volume, command string) string {
	a.t.Helper()
	file := a.writeFile("sum.hcl", fmt.Sprintf(`
job "sum" {
  group "g" {
    volume "data" {
      type            = "csi"
      source          = %q
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
    }
    task "t" {
      driver = "exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "%s; echo sum: $(sha256sum < /data/f); sleep 86400"]
      }
      volume_mount {
        volume      = "data"
        destination = "/data"
      }
    }
  }
}
`, volume, command))
	a.must("job", "run", "-detach", file)
	alloc := a.awaitRunning("sum", 1)[0].ID
	sum := sha256Line.FindStringSubmatch(a.awaitOutput(alloc, " -"))[1]
	a.must("job", "stop", "-purge", "sum")
	a.awaitFree(volume)
	return sum
}
