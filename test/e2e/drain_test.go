package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"berth/structs"
)

// runOnFirstNode starts ten jobs, each of which writes a volume of its own, on the first of two nodes.
func (c *cluster) runOnFirstNode(st *storage) (jobs []string) {
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

func (a *agent) nodeID(name string) string {
	a.t.Helper()
	for _, n := range decode[[]*structs.NodeListStub](a.t, a.must("node", "status", "-json")) {
		if n.Name == name {
			return n.ID
		}
	}
	a.t.Fatalf("there is no node %s", name)
	return ""
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
