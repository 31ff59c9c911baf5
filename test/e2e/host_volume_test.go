package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// agentWithHostVolume starts an agent that offers a directory under the name "data".
func agentWithHostVolume(t *testing.T) (a *agent, dir string) {
	t.Helper()
	a = newAgent(t, "one", "-server", "-client")
	dir = filepath.Join(a.dir, "data")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	a.args = append(a.args, "-config", a.writeFile("volumes.hcl", fmt.Sprintf(`
client {
  host_volume "data" {
    path = %q
  }
}
`, dir)))
	a.start()
	return a, dir
}

// The second run of the example finds the data of the first.
func TestHostVolume_ExampleKeepsItsData(t *testing.T) {
	t.Parallel()
	a, dir := agentWithHostVolume(t)
	if out := a.must("node", "status", "-self"); !strings.Contains(out, dir) {
		t.Errorf("the status of the node does not show its volume:\n%s", out)
	}
	for run := range 2 {
		a.must("job", "run", "-detach", example(t, "host-directory.hcl"))
		alloc := a.awaitRunning("host-directory", 1)[0].ID
		a.awaitOutput(alloc, "started at ")
		kept, err := os.ReadFile(filepath.Join(dir, "log"))
		if n := strings.Count(string(kept), "started at "); err != nil || n != run+1 {
			t.Errorf("run %d: the directory has %q, %v", run, kept, err)
		}
		if out := a.must("alloc", "status", alloc); !strings.Contains(out, "single-node-single-writer") {
			t.Errorf("the status of the allocation does not show its volume:\n%s", out)
		}
		a.must("job", "stop", "-purge", "host-directory")
	}
}

// writerJob is a job whose task reports if another one writes the volume: each makes a directory, and removes
// it a while after the request to stop.
func (a *agent) writerJob(version int) string {
	return a.writeFile("writer.hcl", fmt.Sprintf(`
job "writer" {
  group "g" {
    volume "d" {
      type        = "host"
      source      = "data"
      access_mode = "single-node-single-writer"
    }
    task "t" {
      driver       = "exec"
      kill_timeout = "20s"
      config {
        command = "/bin/sh"
        args    = ["-c", <<-EOT
          mkdir /data/lock || echo overlap
          trap 'sleep 2; rmdir /data/lock; exit 0' INT
          echo "version %d writes"
          while true; do sleep 0.1; done
EOT
        ]
      }
      volume_mount {
        volume      = "d"
        destination = "/data"
      }
      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}
`, version))
}

// A successor starts when the writer before it has ended.
func TestHostVolume_HasOneWriterThroughUpdates(t *testing.T) {
	t.Parallel()
	a, _ := agentWithHostVolume(t)
	for version := 1; version <= 2; version++ {
		a.must("job", "run", "-detach", a.writerJob(version))
		eventually(t, fmt.Sprintf("version %d runs", version), func() error {
			for _, s := range a.awaitRunning("writer", 1) {
				out := a.logs(s.ID)
				if strings.Contains(out, "overlap") {
					t.Errorf("allocation %s says %q", s.ID, out)
				}
				if strings.Contains(out, fmt.Sprintf("version %d writes", version)) {
					return nil
				}
			}
			return fmt.Errorf("it does not")
		})
	}
	a.must("job", "stop", "-purge", "writer")
}
