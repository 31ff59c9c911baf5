package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/structs"
)

// volumesJob is a service with an exclusive volume for each of three allocations. A task writes its version
// to its volume, and complains if another task has the volume at the time. It ends a while after the request.
func volumesJob(version int) string {
	return fmt.Sprintf(`
job "roll" {
  update {
    max_parallel     = 1
    min_healthy_time = "0s"
  }
  group "g" {
    count = 3
    volume "v" {
      type            = "csi"
      source          = "dir-roll"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
      per_alloc       = true
    }
    task "t" {
      driver       = "exec"
      kill_timeout = "20s"
      config {
        command = "/bin/sh"
        args    = ["-c", <<-EOT
          exec 9>> /data/lock
          flock -n 9 || echo overlap >> /data/words
          echo version-%[1]d >> /data/words
          sync
          echo there is $(cat /data/words)
          trap 'sleep 1 9>&-; exit 0' INT
          while :; do sleep 0.1 9>&-; done
EOT
        ]
      }
      volume_mount {
        volume      = "v"
        destination = "/data"
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
`, version)
}

// volumeCalls counts the answered calls for volumes.
func (st *shelfDir) volumeCalls() (n int) {
	for line := range strings.Lines(st.read("calls")) {
		words := strings.Fields(line)
		if len(words) == 4 && words[2] != "-" {
			n++
		}
	}
	return n
}

// awaitStep waits until a number of calls of the plugin have been made since an update began, or until the
// update has ended.
func (st *shelfDir) awaitStep(s *agent, version uint64, begun, step int) {
	st.t.Helper()
	eventually(st.t, fmt.Sprintf("step %d of the update", step), func() error {
		made := st.volumeCalls() - begun
		if made >= step || s.awaitedDeployment("roll", version) == nil {
			return nil
		}
		return fmt.Errorf("%d calls", made)
	})
	st.t.Logf("%d calls of the update are made, %d were awaited", st.volumeCalls()-begun, step)
}

// awaitedDeployment returns how the deployment of a version differs from a successful one.
func (a *agent) awaitedDeployment(job string, version uint64) error {
	all, err := get[[]*structs.Deployment](a, "/v1/job/"+job+"/deployments")
	if err != nil {
		return err
	}
	for _, d := range all {
		if d.JobVersion == version && d.Status == structs.DeploymentSuccessful {
			return nil
		}
	}
	var states []string
	for _, d := range all {
		states = append(states, fmt.Sprintf("version %d %s (%s)", d.JobVersion, d.Status, d.StatusDescription))
	}
	return fmt.Errorf("the deployments are %q", states)
}

// rolled matches the output of a task of the second version. A node that is slow to start again may have lost
// its allocations, whose successors write once more.
var rolled = regexp.MustCompile(`(?m)^there is version-0( version-0)*( version-1)+$`)

// A rolling update loses its leader and then the agent of a node, each at a random step. It ends all the
// same, and no volume ever has two writers.
func TestRollingUpdate_WithVolumesSurvivesKills(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(seedOf(t), 0))
	st, c := clusterWithShelf(t, 2)
	leader, followers := c.leader()
	s := followers[0]
	t.Cleanup(func() { s.explainFailure("roll") })
	var ids []string
	for i := range 3 {
		ids = append(ids, fmt.Sprintf("dir-roll[%d]", i))
		st.createVolume(s, ids[i], 300)
	}
	s.mustEventually("job", "run", "-detach", s.writeFile("roll.hcl", volumesJob(0)))
	eventually(t, "the first version runs", func() error { return s.awaitedDeployment("roll", 0) })
	for _, alloc := range s.awaitRunning("roll", 3) {
		s.awaitOutput(alloc.ID, "there is version-0\n")
	}

	// An update moves three volumes. That takes at least twelve calls of the nodes' plugins.
	steps := []int{rnd.IntN(12), rnd.IntN(12)}
	slices.Sort(steps)
	begun := st.volumeCalls()
	s.mustEventually("job", "run", "-detach", s.writeFile("roll.hcl", volumesJob(1)))
	st.awaitStep(s, 1, begun, steps[0])
	leader.kill()
	st.awaitStep(s, 1, begun, steps[1])
	node := c.nodes[rnd.IntN(len(c.nodes))]
	node.kill()
	t.Logf("killed %s at step %d and %s at step %d", leader.name, steps[0], node.name, steps[1])
	node.start()
	// An agent that was killed during a detach does not repeat it until it can no longer take effect.
	limit := structs.CallSettles + 2*time.Minute
	within(t, limit, "the update succeeds", func() error { return s.awaitedDeployment("roll", 1) })
	leader.start()
	for _, alloc := range s.awaitRunning("roll", 3) {
		out := s.awaitOutput(alloc.ID, "version-1\n")
		if alloc.JobVersion != 1 || strings.Contains(out, "overlap") ||
			!rolled.MatchString(out) {
			t.Errorf("allocation %s of version %d says %q", alloc.ID, alloc.JobVersion, out)
		}
	}
	c.awaitAgreement(st)
	s.mustEventually("job", "stop", "-purge", "roll")
	for _, id := range ids {
		s.awaitFree(url.PathEscape(id))
		s.mustEventually("volume", "delete", id)
	}
	c.stopAndDelete(st)
}
