package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// diskJob is a job that keeps its disk, and whose task runs a script.
func (a *agent) diskJob(node, script string) string {
	return a.writeFile("disk.hcl", fmt.Sprintf(`
job "disk" {
  group "g" {
    constraint {
      attribute = "${node.unique.name}"
      value     = %q
    }
    ephemeral_disk {
      size    = 300
      sticky  = true
      migrate = true
    }
    task "t" {
      driver       = "exec"
      kill_timeout = "1s"
      config {
        command = "/bin/sh"
        args    = ["-c", <<-EOT
          cd $NOMAD_ALLOC_DIR/data
          %s
          sleep 100000
EOT
        ]
      }
      resources {
        cpu    = 20
        memory = 64
      }
    }
  }
}
`, node, script))
}

func TestStory_DataSurvivesAnUpdateOnOneNode(t *testing.T) {
	t.Parallel()
	a := newAgent(t, "one", "-server", "-client")
	a.start()
	const script = `echo version %d | tee -a log >> $NOMAD_TASK_DIR/log; echo have $(cat log $NOMAD_TASK_DIR/log)`
	want := ""
	for version := 1; version <= 3; version++ {
		a.must("job", "run", "-detach", a.diskJob("one", fmt.Sprintf(script, version)))
		want = strings.TrimSpace(want + " version " + strconv.Itoa(version))
		eventually(t, fmt.Sprintf("version %d has the data of all before it", version), func() error {
			var out string
			for _, s := range a.awaitRunning("disk", 1) {
				out = a.logs(s.ID)
			}
			if !strings.Contains(out, "have "+want+" "+want+"\n") {
				return fmt.Errorf("the output is %q", out)
			}
			return nil
		})
	}
	a.must("job", "stop", "-purge", "disk")
}

// The agent of the node that gets the data is killed meanwhile, and the next one gets all of it.
func TestDisk_DataMovesToAnotherNode(t *testing.T) {
	t.Parallel()
	s := newAgent(t, "s", "-server")
	s.ready = (*agent).hasLeader
	s.start()
	var nodes []*agent
	for _, name := range []string{"n1", "n2"} {
		n := newAgent(t, name, "-client", "-servers", "127.0.0.1:"+strconv.Itoa(s.rpc))
		n.start()
		nodes = append(nodes, n)
	}
	s.must("job", "run", "-detach", s.diskJob("n1", `
          head -c 150000000 /dev/urandom > big; ln -s big link; mkdir -m 700 d; echo one > d/e
          echo sum $(sha256sum < big)`))
	first := s.awaitRunning("disk", 1)[0].ID
	sum := s.awaitOutput(first, "sum ", "-\n")

	s.must("job", "run", "-detach", s.diskJob("n2", `
          echo sum $(sha256sum < link)
          [ -d d ] && echo $(stat -c %a d) $(cat d/e) >&2`))
	part := nodes[1].data("alloc", "*", "moved data", "part", "alloc", "data", "big")
	whole := nodes[1].data("alloc", "*", "alloc", "data", "big")
	eventually(t, "the data comes, or has come meanwhile", func() error {
		for _, place := range []string{part, whole} {
			if found, _ := filepath.Glob(place); len(found) > 0 {
				return nil
			}
		}
		return errors.New("there is nothing yet")
	})
	nodes[1].kill()
	found, _ := filepath.Glob(part)
	t.Logf("killed the agent while the data came: %v", len(found) > 0)
	nodes[1].start()
	second := s.awaitRunning("disk", 1)[0].ID
	if got := s.awaitOutput(second, "sum ", "-\n"); got != sum {
		t.Errorf("the data has %q, want %q", got, sum)
	}
	eventually(t, "the directory is complete", func() error {
		out := s.must("alloc", "logs", "-stderr", second)
		if out != "700 one\n" {
			return fmt.Errorf("it has %q", out)
		}
		return nil
	})
	if out := s.must("alloc", "status", second); !strings.Contains(out, "Took over 143.1 MiB in") {
		t.Errorf("the status has no event:\n%s", out)
	}
	if _, err := os.Stat(nodes[1].data("alloc", second, "moved data", "part")); err == nil {
		t.Error("the part is left")
	}
	s.must("job", "stop", "-purge", "disk")
}
