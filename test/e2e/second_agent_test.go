package e2e

import (
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"berth/structs"
)

// newQuickServer starts a server that counts a node as down five seconds after its last heartbeat.
func newQuickServer(t *testing.T) *agent {
	t.Helper()
	s := newAgent(t, "s0", "-server")
	s.args = append(s.args, "-config", s.writeFile("lease.hcl",
		"server {\n  heartbeat_ttl = \"3s\"\n  heartbeat_grace = \"2s\"\n}\n"))
	s.ready = (*agent).hasLeader
	s.start()
	return s
}

// newClientOf makes a node of a server, not started yet.
func newClientOf(s *agent, name string) *agent {
	s.t.Helper()
	return newAgent(s.t, name, "-client", "-servers", fmt.Sprintf("127.0.0.1:%d", s.rpc))
}

// nodeRow returns a node as an operator sees it.
func (a *agent) nodeRow(id string) (*structs.NodeDetail, error) {
	return get[*structs.NodeDetail](a, "/v1/node/"+id)
}

// awaitNode waits until a node is as a condition demands.
func (a *agent) awaitNode(what, id string, check func(n *structs.NodeDetail) bool) (n *structs.NodeDetail) {
	a.t.Helper()
	eventually(a.t, what, func() (err error) {
		n, err = a.nodeRow(id)
		if err == nil && !check(n) {
			err = fmt.Errorf("the node is %s at %s, returning: %v, second agent: %+v",
				n.Status, n.HTTPAddr, n.Returning, n.SecondAgent)
		}
		return err
	})
	return n
}

func isDown(n *structs.NodeDetail) bool { return n.Status == structs.NodeDown }

// An operator has copied the data directory of a node to another machine. One of the two agents has the node.
func TestSecondAgent_WaitsUntilTheFirstIsGone(t *testing.T) {
	t.Parallel()
	s := newQuickServer(t)
	first := newClientOf(s, "n0")
	first.start()
	id := s.nodeID("n0")
	first.stop()
	second := newClientOf(s, "n1")
	if out, err := exec.Command("cp", "-a", first.data(), second.data()).CombinedOutput(); err != nil {
		t.Fatalf("copying the data directory: %v: %s", err, out)
	}

	first.start() // within the lease, and nothing keeps it out
	if log := first.readLog(); strings.Contains(log, "has another agent") {
		t.Errorf("a restart of the agent is taken for a second one:\n%s", log)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", first.http)
	row := s.awaitNode("the first agent has the node", id, func(n *structs.NodeDetail) bool {
		return n.Status == structs.NodeReady && n.HTTPAddr == addr
	})

	second.launch()
	other := fmt.Sprintf("127.0.0.1:%d", second.http)
	seen := s.awaitNode("an operator sees the second agent", id, func(n *structs.NodeDetail) bool {
		return n.SecondAgent != nil
	})
	if seen.HTTPAddr != addr || seen.SecondAgent.HTTPAddr != other || seen.Epoch != row.Epoch {
		t.Errorf("the node is at %s in epoch %d, the second agent is %+v; want %s, %d and %s",
			seen.HTTPAddr, seen.Epoch, seen.SecondAgent, addr, row.Epoch, other)
	}
	out := s.must("node", "status", id)
	for _, text := range []string{"Two agents have the ID of this node", addr, other, "lost-nodes.md"} {
		if !strings.Contains(out, text) {
			t.Errorf("node status lacks %q:\n%s", text, out)
		}
	}
	eventually(t, "the log of the second agent names the first", func() error {
		if log := second.readLog(); !strings.Contains(log, "has another agent") || !strings.Contains(log, addr) {
			return fmt.Errorf("it does not")
		}
		return nil
	})

	first.kill()
	taken := s.awaitNode("the second agent takes over", id, func(n *structs.NodeDetail) bool {
		return n.HTTPAddr == other && n.Ready() && n.SecondAgent == nil
	})
	if taken.Epoch <= row.Epoch {
		t.Errorf("it takes over in epoch %d, and the first agent had epoch %d", taken.Epoch, row.Epoch)
	}
}

// A node was frozen, an operator has given its volume away, and it goes on. It ends the task and releases the
// volume before it gets new allocations.
func TestReturn_ANodeReleasesWhatItLostBeforeItIsEligible(t *testing.T) {
	t.Parallel()
	s := newQuickServer(t)
	n := newClientOf(s, "n0")
	n.start()
	id := s.nodeID("n0")
	s.must("job", "run", "-detach", example(t, "hostpath.hcl"))
	s.healthyNodes("hostpath", 1)
	s.createVolume(volumeFile{id: "hold"})
	s.must("job", "run", "-detach", s.writeJob(writerJob("hold", "hold")))
	alloc := s.awaitRunning("hold", 1)[0].ID
	s.awaitOutput(alloc, "line 3")
	if len(stagedBelow(n.dir)) == 0 {
		t.Fatal("the volume is not mounted")
	}

	n.signal(syscall.SIGSTOP)
	before := s.awaitNode("the node is lost", id, isDown)
	s.must("node", "confirm-lost", "-yes", "-reason", "a test", "-address", "unix://"+s.operatorSocket(), id)
	s.awaitFree("hold")
	s.must("job", "stop", "-detach", "hold")
	if !n.allocsAtWork()[alloc] {
		t.Error("the task ended without its node, so this test shows nothing")
	}

	n.signal(syscall.SIGCONT)
	back := s.awaitNode("the node is back and gets allocations", id, (*structs.NodeDetail).Ready)
	if left := stagedBelow(n.dir); len(left) > 0 || n.allocsAtWork()[alloc] {
		t.Errorf("a node that gets allocations has the mounts %q, its tasks are %v", left, n.allocsAtWork())
	}
	if back.Epoch <= before.Epoch {
		t.Errorf("it is back in epoch %d, and was lost in %d", back.Epoch, before.Epoch)
	}
	s.healthyNodes("hostpath", 1)
	s.must("job", "run", "-detach", s.writeJob(writerJob("hold", "hold")))
	s.awaitRunning("hold", 1)
	s.must("job", "stop", "-purge", "hold")
	s.awaitFree("hold")
	s.must("job", "stop", "-purge", "hostpath")
}

// operatorSocket is the path of the socket that takes an operator's word.
func (a *agent) operatorSocket() string { return a.data("berth.sock") }
