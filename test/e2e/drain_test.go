package e2e

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"berth/structs"
)

// runOnFirstNode starts ten jobs, each of which writes a volume of its own, on the first of two nodes.
func (c *testCluster) runOnFirstNode(st *shelfDir) (jobs []string) {
	c.t.Helper()
	s, _ := c.leader()
	s.mustEventually("node", "eligibility", "-disable", s.nodeID("n1"))
	for i := range 10 {
		id := fmt.Sprintf("dir-%d", i)
		st.createVolume(s, id, 300)
		s.mustEventually("job", "run", "-detach", s.writeJob(appendingJob(id, "", "before")))
		jobs = append(jobs, id)
	}
	for _, job := range jobs {
		s.awaitOutput(s.awaitRunning(job, 1)[0].ID, "before")
	}
	s.mustEventually("node", "eligibility", "-enable", s.nodeID("n1"))
	return jobs
}

func (a *agent) nodeID(name string) (id string) {
	a.t.Helper()
	eventually(a.t, "the node "+name+" is registered", func() error {
		nodes, err := get[[]*structs.NodeListStub](a, "/v1/nodes")
		if err != nil {
			return err
		}
		for _, n := range nodes {
			if n.Name == name {
				id = n.ID
				return nil
			}
		}
		return fmt.Errorf("there are %d others", len(nodes))
	})
	return id
}

// The node with ten volumes in use is drained while the leader is killed. Each volume is on one node at a
// time, and the plugin on the drained node ends after the last of them has left it.
func TestDrain_OfANodeWithTenVolumes(t *testing.T) {
	t.Parallel()
	st, c := clusterWithShelf(t, 2)
	jobs := c.runOnFirstNode(st)
	leader, followers := c.leader()
	s := followers[0]
	n0 := s.nodeID("n0")
	s.mustEventually("node", "drain", "-enable", "-detach", "-m", "new disks", n0)
	leader.kill()
	out := ""
	eventually(t, "the watch of the drain succeeds", func() (err error) {
		out, err = s.run("node", "drain", "-monitor", n0)
		return err
	})
	if !strings.Contains(out, "is complete") {
		t.Errorf("the watch wrote\n%s", out)
	}
	if held := st.mounts(c.nodes[0], "stage"); len(held) > 0 {
		t.Errorf("the drained node has %v", held)
	}
	for _, job := range jobs {
		alloc := s.awaitRunning(job, 1)[0]
		if alloc.NodeName != "n1" {
			t.Errorf("job %s runs on %s", job, alloc.NodeName)
		}
		s.awaitOutput(alloc.ID, "before before")
	}
	node := decode[*structs.NodeDetail](t, s.must("node", "status", "-json", n0))
	if node.LastDrain == nil || node.LastDrain.Status != structs.DrainComplete ||
		node.LastDrain.Meta["message"] != "new disks" ||
		node.SchedulingEligibility != structs.NodeIneligible {
		t.Errorf("the node is %s, its last drain %+v", node.SchedulingEligibility, node.LastDrain)
	}
	s.checkPluginEndedLast(n0)
	s.must("node", "drain", "-disable", n0) // it becomes eligible again
	s.healthyNodes("shelf", 2)
	c.stopAndDelete(st, jobs...)
}

// checkPluginEndedLast compares the ends of the allocations on a node.
func (a *agent) checkPluginEndedLast(node string) {
	a.t.Helper()
	allocs, err := get[[]*structs.Allocation](a, "/v1/node/"+node+"/allocations")
	if err != nil {
		a.t.Fatal(err)
	}
	var last, plugin time.Time
	for _, alloc := range allocs {
		for _, task := range alloc.TaskStates {
			switch {
			case alloc.JobID == "shelf":
				plugin = task.FinishedAt
			case task.FinishedAt.After(last):
				last = task.FinishedAt
			}
		}
	}
	if last.IsZero() || !plugin.After(last) {
		a.t.Errorf("the plugin ended at %s, the last other task at %s", plugin, last)
	}
}

// serverOf returns a job of a service whose server answers its check with an error on the nodes for which the
// file sick-NODE exists. Its node gives up after 10 s.
func (a *agent) serverOf(id string) string {
	a.t.Helper()
	self, err := os.Executable()
	if err != nil {
		a.t.Fatal(err)
	}
	return a.writeFile(id+".hcl", fmt.Sprintf(`
job %q {
  update {
    min_healthy_time = "0s"
  }
  migrate {
    min_healthy_time = "1s"
    healthy_deadline = "10s"
  }
  group "g" {
    count = 2
    network {
      port "http" {}
    }
    service {
      name     = %[1]q
      port     = "http"
      provider = "berth"
      check {
        type     = "http"
        path     = "/"
        interval = "1s"
        timeout  = "5s"
      }
    }
    task "server" {
      driver = "raw_exec"
      config {
        command = %[2]q
        args    = ["web", "${NOMAD_ADDR_http}", "%[3]s-${node.unique.name}"]
      }
    }
  }
}
`, id, self, a.sick("on")))
}

// awaitDrainWait waits until a reason for which a node still drains has a text.
func (a *agent) awaitDrainWait(node, text string) {
	a.t.Helper()
	eventually(a.t, "the drain waits: "+text, func() error {
		s, err := get[structs.NodeDrainStatusResponse](a, "/v1/node/"+node+"/drain")
		if err != nil {
			return err
		}
		if len(s.Waits) != 1 || !strings.Contains(s.Waits[0].Reason, text) {
			return fmt.Errorf("it waits for %+v", s.Waits)
		}
		return nil
	})
}

// The checks of the successors fail on the other node. The second allocation stays until they pass.
func TestStory_DrainWaitsForTheChecksOfSuccessors(t *testing.T) {
	t.Parallel()
	c := newServers(t)
	for range 2 {
		c.addNode().allowRaw().launch()
	}
	for _, n := range c.nodes {
		n.awaitReady()
	}
	s, _ := c.leader()
	n0 := s.nodeID("n0")
	n1 := s.nodeID("n1")
	s.mustEventually("node", "eligibility", "-disable", n1)
	s.must("job", "run", s.serverOf("web"))
	s.awaitRunning("web", 2)
	s.must("node", "eligibility", "-enable", n1)
	sick := s.sick("on") + "-n1"
	if err := os.WriteFile(sick, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.must("node", "drain", "-enable", "-detach", n0)
	s.awaitDrainWait(n0, "on node n1 is unhealthy")
	if err := os.Remove(sick); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the drain is complete", func() error { return s.replaceUnhealthy("web", n0) })
	s.must("node", "drain", "-monitor", n0)
	s.must("job", "stop", "-purge", "web")
}

// replaceUnhealthy returns nil if the drain of a node is complete. Otherwise it stops the allocations of a
// job that are unhealthy: the first successor, and any that a slow machine has started after its deadline.
func (a *agent) replaceUnhealthy(job, node string) error {
	drained, err := get[*structs.NodeDetail](a, "/v1/node/"+node)
	if err != nil {
		return err
	}
	if drained.LastDrain != nil && drained.LastDrain.Status == structs.DrainComplete {
		return nil
	}
	allocs, err := get[[]*structs.AllocListStub](a, "/v1/job/"+job+"/allocations")
	if err != nil {
		return err
	}
	for _, alloc := range allocs {
		if alloc.DesiredStatus == structs.AllocDesiredRun && alloc.DeploymentStatus.IsUnhealthy() {
			_, err := a.run("alloc", "stop", "-detach", alloc.ID)
			return errors.Join(err, fmt.Errorf("allocation %s is unhealthy", alloc.ID))
		}
	}
	return fmt.Errorf("the node has the drain %+v", drained.LastDrain)
}
