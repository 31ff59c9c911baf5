package e2e

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/structs"
)

// drainOnShutdown gives a node drain_on_shutdown, before it is started.
func (a *agent) drainOnShutdown(settings string) *agent {
	a.args = append(a.args, "-config", a.writeFile("drain.hcl",
		fmt.Sprintf("client {\n  drain_on_shutdown {\n    %s\n  }\n}\n", settings)))
	return a
}

// ended is closed when the process of an agent has ended. Nothing else may wait for the process.
func (a *agent) ended() <-chan struct{} {
	ended := make(chan struct{})
	cmd := a.cmd
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	return ended
}

func (a *agent) signal(s syscall.Signal) {
	a.t.Helper()
	if err := a.cmd.Process.Signal(s); err != nil {
		a.t.Fatal(err)
	}
}

// awaitEnd waits until the process has ended.
func (a *agent) awaitEnd(ended <-chan struct{}) {
	a.t.Helper()
	select {
	case <-ended:
		a.cmd = nil
	case <-time.After(2 * time.Minute):
		a.t.Fatalf("%s does not end", a.name)
	}
}

func (a *agent) readLog() string {
	a.t.Helper()
	log, err := os.ReadFile(a.log.Name())
	if err != nil {
		a.t.Fatal(err)
	}
	return string(log)
}

func (a *agent) drainOf(node string) *structs.NodeDetail {
	a.t.Helper()
	return decode[*structs.NodeDetail](a.t, a.must("node", "status", "-json", node))
}

// A machine is switched off: its node drains first, so each volume is mounted on the other node before the
// process ends, and the plugin leaves last. The node takes allocations again when its agent has started.
func TestLeave_MovesTheVolumesBeforeTheProcessEnds(t *testing.T) {
	t.Parallel()
	st := newStorage(t)
	c := newServers(t)
	c.addNode().allowRaw().drainOnShutdown("").launch()
	c.addNode().allowRaw().launch()
	for _, n := range c.nodes {
		n.awaitReady()
	}
	s, _ := c.leader()
	s.mustEventually("job", "run", "-detach", st.writePluginJob(s, "shelf", "system", "monolith"))
	s.healthyNodes("shelf", 2)
	jobs := c.runOnFirstNode(st)
	first := c.nodes[0]
	n0 := s.nodeID("n0")
	ended := first.ended()
	first.signal(syscall.SIGTERM)
	first.awaitEnd(ended)

	// The process has ended, so everything below was true before.
	for _, job := range jobs {
		allocs := s.awaitRunning(job, 1)
		if allocs[0].NodeName != "n1" {
			t.Errorf("job %s runs on %s", job, allocs[0].NodeName)
		}
		s.awaitOutput(allocs[0].ID, "before before")
	}
	if held := st.mounts(first, "stage"); len(held) > 0 {
		t.Errorf("the node that was switched off has %v", held)
	}
	node := s.drainOf(n0)
	if node.LastDrain == nil || node.LastDrain.Status != structs.DrainComplete || node.DrainStrategy != nil ||
		!strings.Contains(node.LastDrain.Meta["message"], "shut down") ||
		node.SchedulingEligibility != structs.NodeIneligible {
		t.Errorf("the node is %s, its last drain %+v", node.SchedulingEligibility, node.LastDrain)
	}
	s.checkPluginEndedLast(n0)
	log := first.readLog()
	for _, text := range []string{"waiting for an allocation to leave the node", "status=complete"} {
		if !strings.Contains(log, text) {
			t.Errorf("the log of the agent lacks %q", text)
		}
	}

	first.start()
	s.healthyNodes("shelf", 2) // it takes allocations again
	if node := s.drainOf(n0); node.SchedulingEligibility != structs.NodeEligible {
		t.Errorf("after its start the node is %s", node.SchedulingEligibility)
	}
	c.stopAndDelete(st, jobs...)
}

// In one process the node drains while its own server still runs. The drain of a batch job waits for its
// deadline. A second signal ends the wait, and the task runs on.
func TestLeave_ASecondSignalEndsTheWait(t *testing.T) {
	t.Parallel()
	a := newAgent(t, "solo", "-server", "-client", "-bootstrap-expect", "1").allowRaw().drainOnShutdown("")
	a.start()
	id := a.nodeID("solo")
	a.must("job", "run", "-detach", a.writeFile("long.hcl", `
job "long" {
  type = "batch"
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sleep"
        args    = ["86400"]
      }
    }
  }
}
`))
	alloc := a.awaitRunning("long", 1)[0].ID
	ended := a.ended()
	a.signal(syscall.SIGINT)
	eventually(t, "the drain waits for the batch job", func() error {
		s, err := get[structs.NodeDrainStatusResponse](a, "/v1/node/"+id+"/drain")
		if err == nil && (len(s.Waits) != 1 || s.Waits[0].AllocID != alloc) {
			err = fmt.Errorf("it waits for %+v", s.Waits)
		}
		return err
	})
	select {
	case <-ended:
		t.Fatal("the agent has ended during the drain")
	default:
	}
	a.signal(syscall.SIGINT)
	a.awaitEnd(ended)

	a.start()
	if allocs := a.awaitRunning("long", 1); allocs[0].ID != alloc {
		t.Errorf("allocation %s runs, want %s", allocs[0].ID, alloc)
	}
	if node := a.drainOf(id); node.Drain || node.SchedulingEligibility != structs.NodeEligible {
		t.Errorf("the node is %s, its drain %+v", node.SchedulingEligibility, node.DrainStrategy)
	}
	a.must("job", "stop", "-purge", "long")
}

// Servers that are away keep no machine from being switched off. A node that an operator has drained before
// stays ineligible over the stop and the start of its agent.
func TestLeave_NeedsNoServersAndKeepsTheDrainOfAnOperator(t *testing.T) {
	t.Parallel()
	c := newServersOf(t, binary, 1)
	n := c.addNode().allowRaw().drainOnShutdown(`deadline = "10m"`)
	n.start()
	s := c.servers[0]
	id := s.nodeID("n0")
	s.must("node", "drain", "-enable", id)
	ended := n.ended()
	n.signal(syscall.SIGTERM)
	n.awaitEnd(ended)
	n.start()
	if node := s.drainOf(id); node.SchedulingEligibility != structs.NodeIneligible || node.Drain {
		t.Errorf("the node is %s, its last drain %+v", node.SchedulingEligibility, node.LastDrain)
	}
	s.kill()
	ended = n.ended()
	n.signal(syscall.SIGTERM)
	n.awaitEnd(ended)
	if log := n.readLog(); !strings.Contains(log, "failed to drain the node, stopping all the same") {
		t.Errorf("the log of the agent has no reason:\n%s", log)
	}
}
