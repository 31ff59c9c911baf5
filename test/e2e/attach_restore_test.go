package e2e

import (
	"os"
	"path/filepath"
	"testing"
)

// clusterWithShelf starts three servers, and a number of nodes that all run the shelf plugin.
func clusterWithShelf(t testing.TB, nodes int) (*shelfDir, *testCluster) {
	t.Helper()
	st := newStorage(t)
	c := newServers(t)
	for range nodes {
		c.addNode().allowRaw().launch()
	}
	for _, n := range c.nodes {
		n.awaitReady()
	}
	s, _ := c.leader()
	s.mustEventually("job", "run", "-detach",
		st.writePluginJob(s, "shelf", "system", "monolith"))
	s.healthyNodes("shelf", nodes)
	return st, c
}

// stopAndDelete ends jobs and deletes their volumes of the same names, and checks that the plugin's calls
// were in order.
func (c *testCluster) stopAndDelete(st *shelfDir, jobs ...string) {
	c.t.Helper()
	s := c.liveServer()
	for _, job := range jobs {
		s.mustEventually("job", "stop", "-purge", job)
	}
	for _, id := range jobs {
		s.awaitFree(id)
		s.mustEventually("volume", "delete", id)
	}
	c.awaitAgreement(st)
	for _, fault := range stateViolations(c.t, s) {
		c.t.Errorf("the state is not sound: %s", fault)
	}
	s.mustEventually("job", "stop", "-purge", "shelf")
	st.checkCallOrder()
}

func TestRestore_NothingIsLostAndNothingIsLeftAttached(t *testing.T) {
	t.Parallel()
	st, c := clusterWithShelf(t, 3)
	s, _ := c.leader()
	for _, id := range []string{"free", "moved", "ended", "stopped", "grown"} {
		st.createVolume(s, id, 300)
	}
	ended := appendingJob("ended", "n1", "before")
	ended.once = true
	for _, j := range []jobFile{
		appendingJob("moved", "n0", "before"), ended, appendingJob("stopped", "n2", "before"),
		appendingJob("grown", "n2", "before"),
	} {
		s.runUntilOutput(j, "before")
	}
	c.awaitAgreement(st)
	grown := s.awaitRunning("grown", 1)[0].ID
	archive := filepath.Join(s.dir, "then.snap")
	s.mustEventually("operator", "snapshot", "save", archive)

	// The snapshot does not know any of this.
	s.runUntilOutput(appendingJob("free", "n1", "since"), "since")
	s.runUntilOutput(appendingJob("moved", "n1", "since"), "before", "since")
	c.nodes[1].killTask(s.awaitRunning("ended", 1)[0].ID)
	s.awaitFree("ended")
	s.mustEventually("job", "stop", "stopped")
	s.awaitFree("stopped")
	st.createVolume(s, "grown", 340)
	st.createVolume(s, "new", 300)
	s.runUntilOutput(appendingJob("new", "n0", "since"), "since")
	c.awaitAgreement(st)

	s.mustEventually("operator", "snapshot", "restore", archive)
	c.awaitAgreement(st)
	for _, job := range []string{"moved", "stopped", "grown"} {
		s.awaitRunning(job, 1)
	}
	s.awaitOutput(s.awaitRunning("moved", 1)[0].ID, "before", "since")
	s.awaitOutput(s.awaitRunning("stopped", 1)[0].ID, "before")
	if now := s.awaitRunning("grown", 1)[0]; now.ID != grown || now.TaskStates["t"].Restarts != 0 {
		t.Errorf("allocation %s with %d restarts; was %s",
			now.ID, now.TaskStates["t"].Restarts, grown)
	}
	s.awaitRunning("ended", 0)

	// All written data is there, at any node that needs it now.
	s.runUntilOutput(appendingJob("free", "n0", "after"), "since", "after")
	st.createVolume(s, "new", 300) // the plugin has a volume of this name
	s.runUntilOutput(appendingJob("new", "n2", "after"), "since", "after")
	s.runUntilOutput(appendingJob("ended", "n0", "after"), "before", "after")
	st.createVolume(s, "grown", 340)
	c.awaitAgreement(st)

	c.stopAndDelete(st, "free", "moved", "ended", "stopped", "grown", "new")
}

// All servers are lost with their state, while jobs continue. New servers get a backup. Only the nodes know
// of later changes.
func TestRestore_NewServersLearnLaterChangesFromNodes(t *testing.T) {
	t.Parallel()
	st, c := clusterWithShelf(t, 2)
	s, _ := c.leader()
	for _, id := range []string{"free", "moved"} {
		st.createVolume(s, id, 300)
	}
	s.runUntilOutput(appendingJob("moved", "n0", "before"), "before")
	archive := filepath.Join(s.dir, "then.snap")
	s.mustEventually("operator", "snapshot", "save", archive)
	s.runUntilOutput(appendingJob("free", "n1", "since"), "since")
	s.runUntilOutput(appendingJob("moved", "n1", "since"), "before", "since")
	c.awaitAgreement(st)

	for _, a := range append(c.nodes, c.servers...) {
		a.kill() // the processes that the agents started continue
	}
	for _, s := range c.servers {
		if err := os.RemoveAll(s.data()); err != nil {
			t.Fatal(err)
		}
		s.launch()
	}
	for _, s := range c.servers {
		s.awaitReady()
	}
	s.mustEventually("operator", "snapshot", "restore", archive)
	for _, n := range c.nodes {
		n.start()
	}
	c.awaitAgreement(st)
	s.awaitRunning("moved", 1)
	s.runUntilOutput(appendingJob("moved", "n0", "after"), "before", "since", "after")
	s.runUntilOutput(appendingJob("free", "n0", "after"), "since", "after")
	c.awaitAgreement(st)
	c.stopAndDelete(st, "free", "moved")
}
