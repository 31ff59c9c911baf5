package e2e

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"berth/structs"
)

// A snapshot has the file that the first command of the task has written, and the volume that of the second.
func TestSnapshot_IsCutBetweenTheCommandsOfATask(t *testing.T) {
	t.Parallel()
	a := newAgent(t, "solo", "-server", "-client", "-bootstrap-expect", "1")
	a.start()
	a.must("job", "run", example(t, "hostpath.hcl"))
	a.healthyNodes("hostpath", 1)
	a.must("volume", "create", a.snapshotVolume("data", `capacity_min = "32MiB"`))
	a.must("job", "run", "-detach", a.databaseFile("echo locked > /data/state"))
	alloc := a.awaitRunning("db", 1)[0].ID
	a.awaitOutput(alloc, "up")

	a.must("volume", "snapshot", "create", "data", "between")
	out := a.must("volume", "snapshot", "status", "between")
	if !strings.Contains(out, "Consistency") || !strings.Contains(out, "application") {
		t.Errorf("the status is\n%s", out)
	}
	out = a.must("alloc", "exec", alloc, "cat", "/data/state")
	if strings.TrimSpace(out) != "open" {
		t.Errorf("the volume has %q after the snapshot", out)
	}
	a.must("job", "stop", "-purge", "db")
	a.awaitFree("data")

	a.must("volume", "create", a.snapshotVolume("restored", `snapshot = "between"`))
	a.must("job", "run", "-detach", a.databaseFile("exit 4"))
	alloc = a.awaitRunning("db", 1)[0].ID
	a.awaitOutput(alloc, "up")
	a.mustFail(structs.KindPrecondition.ExitCode(),
		[]string{"task server of allocation " + structs.ShortID(alloc), "exit code 4"},
		"volume", "snapshot", "create", "data", "never")
	out = a.must("volume", "snapshot", "list", "-plugin", "hostpath")
	if strings.Contains(out, "never") {
		t.Errorf("the plugin has\n%s", out)
	}
	a.must("job", "stop", "-purge", "db")
	locked := a.sumOf("restored", "cp /data/state /data/f")
	if want := fmt.Sprintf("%x", sha256.Sum256([]byte("locked\n"))); locked != want {
		t.Errorf("the state in the snapshot has the sum %s, want %s", locked, want)
	}
	a.must("volume", "snapshot", "delete", "between")
	a.must("job", "stop", "-purge", "hostpath")
}

// databaseFile writes the file of a job whose task writes the volume data, with a command before snapshots.
func (a *agent) databaseFile(pre string) string {
	return a.writeFile("db.hcl", fmt.Sprintf(`
job "db" {
  group "g" {
    volume "data" {
      type            = "csi"
      source          = "data"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
    }
    task "server" {
      driver = "exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo up; sleep 86400"]
      }
      volume_mount {
        volume      = "data"
        destination = "/data"
        snapshot {
          pre  = ["/bin/sh", "-c", %q]
          post = ["/bin/sh", "-c", "echo open > /data/state"]
        }
      }
    }
  }
}
`, pre))
}
