package e2e

import (
	"os"
	"path/filepath"
	"testing"
)

// withStorage starts three servers and so many nodes that all run the shelf plugin.
func withStorage(t testing.TB, nodes int) (*storage, *cluster) {
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
	s.again("job", "run", "-detach", st.job(s, "shelf", "system", "monolith"))
	s.healthyNodes("shelf", nodes)
	return st, c
}

// endAll ends jobs and deletes their volumes of the same names, and checks that the plugin's calls were in
// order.
func (c *cluster) endAll(st *storage, jobs ...string) {
	c.t.Helper()
	s := c.alive()
	for _, job := range jobs {
		s.again("job", "stop", "-purge", job)
	}
	for _, id := range jobs {
		s.free(id)
		s.again("volume", "delete", id)
	}
	c.alike(st)
	for _, fault := range faults(c.t, s) {
		c.t.Errorf("the state is not sound: %s", fault)
	}
	s.again("job", "stop", "-purge", "shelf")
	st.inOrder()
}

func TestRestore_NothingIsLostAndNothingIsLeftAttached(t *testing.T) {
	t.Parallel()
	st, c := withStorage(t, 3)
	s, _ := c.leader()
	for _, id := range []string{"free", "moved", "ended", "stopped", "grown"} {
		st.create(s, id, 300)
	}
	ended := keeping("ended", "n1", "before")
	ended.once = true
	for _, j := range []jobFile{
		keeping("moved", "n0", "before"), ended, keeping("stopped", "n2", "before"),
		keeping("grown", "n2", "before"),
	} {
		s.holds(j, "before")
	}
	c.alike(st)
	grown := s.running("grown", 1)[0].ID
	archive := filepath.Join(s.dir, "then.snap")
	s.again("operator", "snapshot", "save", archive)

	// The snapshot does not know any of this.
	s.holds(keeping("free", "n1", "since"), "since")
	s.holds(keeping("moved", "n1", "since"), "before", "since")
	c.nodes[1].endTask(s.running("ended", 1)[0].ID)
	s.free("ended")
	s.again("job", "stop", "stopped")
	s.free("stopped")
	st.create(s, "grown", 340)
	st.create(s, "new", 300)
	s.holds(keeping("new", "n0", "since"), "since")
	c.alike(st)

	s.again("operator", "snapshot", "restore", archive)
	c.alike(st)
	for _, job := range []string{"moved", "stopped", "grown"} {
		s.running(job, 1)
	}
	s.says(s.running("moved", 1)[0].ID, "before", "since")
	s.says(s.running("stopped", 1)[0].ID, "before")
	if now := s.running("grown", 1)[0]; now.ID != grown || now.TaskStates["t"].Restarts != 0 {
		t.Errorf("allocation %s with %d restarts; was %s",
			now.ID, now.TaskStates["t"].Restarts, grown)
	}
	s.running("ended", 0)

	// All written data is there, at any node that needs it now.
	s.holds(keeping("free", "n0", "after"), "since", "after")
	st.create(s, "new", 300) // the plugin has a volume of this name
	s.holds(keeping("new", "n2", "after"), "since", "after")
	s.holds(keeping("ended", "n0", "after"), "before", "after")
	st.create(s, "grown", 340)
	c.alike(st)

	c.endAll(st, "free", "moved", "ended", "stopped", "grown", "new")
}

// All servers are lost with their state, while jobs continue. New servers get a backup. Only the nodes know
// of later changes.
func TestRestore_IntoServersThatKnowNothing(t *testing.T) {
	t.Parallel()
	st, c := withStorage(t, 2)
	s, _ := c.leader()
	for _, id := range []string{"free", "moved"} {
		st.create(s, id, 300)
	}
	s.holds(keeping("moved", "n0", "before"), "before")
	archive := filepath.Join(s.dir, "then.snap")
	s.again("operator", "snapshot", "save", archive)
	s.holds(keeping("free", "n1", "since"), "since")
	s.holds(keeping("moved", "n1", "since"), "before", "since")
	c.alike(st)

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
	s.again("operator", "snapshot", "restore", archive)
	for _, n := range c.nodes {
		n.start()
	}
	c.alike(st)
	s.running("moved", 1)
	s.holds(keeping("moved", "n0", "after"), "before", "since", "after")
	s.holds(keeping("free", "n0", "after"), "since", "after")
	c.alike(st)
	c.endAll(st, "free", "moved")
}
