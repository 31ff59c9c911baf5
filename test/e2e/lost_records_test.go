package e2e

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/structs"
)

// newNodeWithVolume starts a server with a lease of 3 seconds and a grace, and a node with the job counter.
// It returns the allocation, the number of whose lines grows.
func newNodeWithVolume(t *testing.T, grace string) (s, n *agent, alloc string) {
	t.Helper()
	s = newAgent(t, "s0", "-server")
	s.args = append(s.args, "-config", s.writeFile("lease.hcl", fmt.Sprintf(
		"server {\n  heartbeat_ttl = \"3s\"\n  heartbeat_grace = %q\n}\n", grace)))
	s.ready = (*agent).hasLeader
	s.start()
	n = newClientOf(s, "n0")
	n.start()
	s.must("job", "run", "-detach", example(t, "hostpath.hcl"))
	s.healthyNodes("hostpath", 1)
	s.must("volume", "create", example(t, "volume.hcl"))
	s.must("job", "run", "-detach", example(t, "counter.hcl"))
	alloc = s.awaitRunning("counter", 1)[0].ID
	s.awaitMoreOutput(alloc)
	return s, n, alloc
}

// removeRecords does what the error of a damaged client.db says.
func (a *agent) removeRecords() {
	a.t.Helper()
	err := os.Remove(a.data("client", "client.db"))
	if err != nil {
		a.t.Fatal(err)
	}
}

// An operator removes a damaged client.db. The servers know the agent by its place, and it goes on with the
// tasks and mounts of the one before it.
func TestLostRecords_TheNodeGoesOnWithItsTasksAndMounts(t *testing.T) {
	t.Parallel()
	s, n, alloc := newNodeWithVolume(t, "1m")
	id := s.nodeID("n0")
	before, err := s.nodeRow(id)
	if err != nil {
		t.Fatal(err)
	}
	tasks := n.taskProcesses()
	mounts := stagedBelow(n.dir)

	n.kill()
	n.removeRecords()
	n.start()
	node := liveAgent{agent: n}
	node.awaitLog("node registered", 2)
	s.awaitMoreOutput(alloc)
	if now := n.taskProcesses(); !slices.Equal(now, tasks) {
		t.Errorf("the processes are %v, were %v", now, tasks)
	}
	if now := stagedBelow(n.dir); !slices.Equal(now, mounts) || len(now) == 0 {
		t.Errorf("the mounts are %v, were %v", now, mounts)
	}
	if again := s.awaitRunning("counter", 1)[0]; again.ID != alloc {
		t.Errorf("allocation %s is in the place of %s", again.ID, alloc)
	}
	after := s.awaitNode("the node is ready", id, (*structs.NodeDetail).Ready)
	if after.Epoch != before.Epoch || after.SecondAgent != nil {
		t.Errorf("the node is in epoch %d, was in %d; the second agent is %+v",
			after.Epoch, before.Epoch, after.SecondAgent)
	}
	if log := n.readLog(); strings.Contains(log, "has another agent") {
		t.Errorf("the agent is taken for a second one:\n%s", log)
	}
	s.healthyNodes("hostpath", 1)
	endCounter(s, n)
}

// claimErrorHas returns nil if the only claim on a volume is not released for a reason with a text.
func (a *agent) claimErrorHas(volume, text string) error {
	claims, err := a.claims(volume)
	if err != nil {
		return err
	}
	for _, c := range claims {
		if c.ReleaseError != nil && strings.Contains(fmt.Sprintf("%+v", *c.ReleaseError), text) {
			return nil
		}
	}
	return fmt.Errorf("the claims are %+v", claims)
}

// endCounter stops the jobs, and checks that nothing is left on the node.
func endCounter(s, n *agent) {
	s.t.Helper()
	s.must("job", "stop", "-purge", "counter")
	s.awaitFree("counter")
	if left := stagedBelow(n.dir); len(left) > 0 {
		s.t.Errorf("mounts after the last claim has ended: %v", left)
	}
	s.must("volume", "delete", "counter")
	s.must("job", "stop", "-purge", "hostpath")
}

// The node was lost before the operator came. A copy of its disk on another machine, without the records
// either, gets nothing. The node ends the task that it lost, and names the mount that is left.
func TestLostRecords_OfALostNodeComeBackAndACopyDoesNot(t *testing.T) {
	t.Parallel()
	s, n, alloc := newNodeWithVolume(t, "2s")
	id := s.nodeID("n0")
	n.kill()
	n.removeRecords()
	lost := s.awaitNode("the node is lost", id, isDown)
	twin := newClientOf(s, "twin")
	twin.copyFiles(n)
	twin.onAnotherMachine(n)
	twin.launch()
	twin.awaitLogged("has another agent")
	twin.kill()
	if claims, err := s.claims("counter"); err != nil || len(claims) != 1 || claims[0].AllocID != alloc {
		t.Errorf("the volume has the claims %v, error %v", claims, err)
	}
	if !n.allocsAtWork()[alloc] {
		t.Error("the task ended without its agent, so this test shows nothing")
	}

	n.start()
	back := s.awaitNode("the node is back", id, (*structs.NodeDetail).Ready)
	if back.Epoch <= lost.Epoch || n.allocsAtWork()[alloc] {
		t.Errorf("it is back in epoch %d, was lost in %d; its tasks are %v", back.Epoch, lost.Epoch, n.allocsAtWork())
	}
	s.healthyNodes("hostpath", 1)

	// The servers had the allocation for lost, so it has no record that would unmount its volume.
	eventually(t, "the operator is told what to unmount", func() error {
		return s.claimErrorHas("counter", "it has to be unmounted by hand")
	})
	for _, m := range stagedBelow(n.dir) { // the deepest first
		if err := unix.Unmount(m, 0); err != nil {
			t.Fatal(m, err)
		}
	}
	next := s.awaitRunning("counter", 1)[0].ID
	s.awaitMoreOutput(next)
	if work := n.allocsAtWork(); next == alloc || work[alloc] || !work[next] {
		t.Errorf("the tasks of %v run, want those of %s", work, next)
	}
	endCounter(s, n)
}
