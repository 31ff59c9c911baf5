package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"berth/structs"
)

// spaceJob has a volume for which the small node has no space.
const spaceJob = `
job "db" {
  group "g" {
    volume "data" {
      type  = "csi"
      class = "fast"
      size  = "128MiB"
    }
    task "t" {
      driver = "exec"
      config {
        command = "/bin/sleep"
        args    = ["86400"]
      }
      volume_mount {
        volume      = "data"
        destination = "/data"
      }
    }
  }
}
`

// A driver tells how much space each node has. A job whose volume one node has no space for waits, without a
// try there, and starts on the node that has it.
func TestCapacity_AJobStartsOnTheNodeWithSpace(t *testing.T) {
	t.Parallel()
	c := newServersOf(t, binary, 1)
	s := c.servers[0]
	for _, capacity := range []string{"64MiB", "1GiB"} {
		n := c.addNode()
		n.args = append(n.args, "-config",
			n.writeFile("space.hcl", fmt.Sprintf("client {\n  meta {\n    space = %q\n  }\n}\n", capacity)))
	}
	small, large := c.nodes[0], c.nodes[1]
	small.start()
	job, err := os.ReadFile(example(t, "hostpath.hcl"))
	if err != nil {
		t.Fatal(err)
	}
	s.must("job", "run", s.writeFile("hostpath.hcl",
		strings.Replace(string(job), `"-node-id",`, `"-capacity", "${meta.space}", "-node-id",`, 1)))
	s.healthyNodes("hostpath", 1)
	s.must("volume", "class", "apply", s.writeFile("class.hcl", `
name       = "fast"
plugin_id  = "hostpath"
binding    = "first-consumer"
parameters = { type = "image", provisioning = "thin" }
`))

	// The leader asks the drivers each minute.
	within(t, 3*time.Minute, "the driver of the small node tells its space", func() error {
		out := s.must("volume", "class", "info", "fast")
		if !strings.Contains(out, "64 MiB") {
			return fmt.Errorf("the class is %s", out)
		}
		return nil
	})

	s.must("job", "run", "-detach", s.writeFile("db.hcl", spaceJob))
	eventually(t, "the reason is the space", func() error {
		out := s.must("job", "why", "db")
		if !strings.Contains(out, "class fast has 64 MiB left") {
			return fmt.Errorf("job why says %s", out)
		}
		return nil
	})

	large.start()
	within(t, 3*time.Minute, "the job runs on the large node", func() error {
		out := s.must("job", "status", "db")
		if !strings.Contains(out, large.name) || !strings.Contains(out, "running") {
			return fmt.Errorf("the job is %s", out)
		}
		return nil
	})
	allocs, err := get[[]*structs.AllocListStub](s, "/v1/job/db/allocations")
	if err != nil || len(allocs) != 1 {
		t.Errorf("%d allocations, %v: the small node was tried", len(allocs), err)
	}

	s.must("job", "stop", "-purge", "db")
	s.awaitFree("db.g.data")
	s.mustEventually("volume", "delete", "db.g.data")
	s.must("job", "stop", "-purge", "hostpath")
}
