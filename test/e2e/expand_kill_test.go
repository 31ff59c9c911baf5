package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/structs"
)

// holdCalls makes the plugin's calls of an RPC wait until release is called: before their effect, after it,
// or "late", which is before it and also after their callers have gone.
func (st *shelfDir) holdCalls(rpc, when string) (release func()) {
	st.t.Helper()
	path := filepath.Join(st.root, "hold", rpc+"."+when)
	_ = os.Remove(filepath.Join(st.root, "hold", rpc+".held"))
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		st.t.Fatal(err)
	}
	return func() {
		if err := os.Remove(path); err != nil {
			st.t.Error(err)
		}
	}
}

// awaitHeldCall waits until the plugin holds a call of the RPC.
func (st *shelfDir) awaitHeldCall(rpc string) {
	st.t.Helper()
	eventually(st.t, "a call of "+rpc+" waits", func() error {
		_, err := os.Stat(filepath.Join(st.root, "hold", rpc+".held"))
		return err
	})
}

// expandUntilHeld expands a volume until the plugin holds a call of the RPC. It repeats the command if that
// ends before: the servers may elect a leader, or have no connection to a node that has just started.
func (c *testCluster) expandUntilHeld(st *shelfDir, file, rpc string) {
	c.t.Helper()
	var create *backgroundCommand
	eventually(c.t, "a call of "+rpc+" waits", func() error {
		_, err := os.Stat(filepath.Join(st.root, "hold", rpc+".held"))
		if err == nil {
			return nil
		}
		if create == nil || create.hasEnded() {
			if create != nil {
				c.t.Logf("it is repeated: %s", create.out.String())
			}
			create = c.liveServer().startCommand("volume", "create", file)
		}
		return err
	})
}

// awaitGrowth waits until a volume is shown with, or without, a remaining step of a node.
func (a *agent) awaitGrowth(id string, wanted bool) {
	a.t.Helper()
	eventually(a.t, fmt.Sprintf("volume %s grows: %t", id, wanted), func() error {
		out, err := a.run("volume", "status", id)
		if err == nil && strings.Contains(out, "Grows to") != wanted {
			err = fmt.Errorf("its status:\n%s", out)
		}
		return err
	})
}

func TestExpand_CompletesAfterAKillBetweenTheSteps(t *testing.T) {
	t.Parallel()
	st := newStorage(t)
	c := newServers(t)
	c.addNode().allowRaw().start()
	n := c.nodes[0]
	s, _ := c.leader()
	s.mustEventually("job", "run", "-detach",
		st.writePluginJob(s, "shelf", "system", "monolith"))
	s.healthyNodes("shelf", 1)
	st.createVolume(s, "v", 300)
	s.mustEventually("job", "run", "-detach",
		s.writeJob(sizePrintingJob("v", "v", df, structs.CSIFileSystem)))
	alloc := s.awaitRunning("v", 1)[0].ID
	s.awaitOutput(alloc, "size 2")

	for i, kill := range []struct{ what, rpc, when string }{
		{"the agent", "NodeExpandVolume", "before"}, // the node's step has had no effect
		{"the agent", "NodeExpandVolume", "after"},  // an unrecorded call has already had its effect
		{"the leader", "NodeExpandVolume", "before"},
		{"the leader", "NodeExpandVolume", "after"},
		{"the leader", "ControllerExpandVolume", "after"},
	} {
		mib := 360 + 60*i
		release := st.holdCalls(kill.rpc, kill.when)
		c.expandUntilHeld(st, st.writeVolume(s, "v", mib), kill.rpc)
		t.Logf("%d MiB: %s is killed %s the effect of %s",
			mib, kill.what, kill.when, kill.rpc)
		killed := n
		if kill.what == "the leader" {
			killed, _ = c.leader()
		}
		if kill.rpc == "NodeExpandVolume" {
			c.liveServer().awaitGrowth("v", true)
		}
		killed.kill()
		release()
		if killed == n {
			n.start()
		}
		s := c.liveServer()
		s.awaitOutput(alloc, fmt.Sprintf("size %dx\n", (mib-64)/10)) // the log of xfs takes 64 MiB
		s.awaitGrowth("v", false)
		if killed != n {
			killed.start()
		}
	}
	if now := s.awaitRunning("v", 1)[0]; now.ID != alloc || now.TaskStates["t"].Restarts != 0 {
		t.Errorf("allocation %s with %d restarts; was %s",
			now.ID, now.TaskStates["t"].Restarts, alloc)
	}
	c.awaitAgreement(st)
	s.mustEventually("job", "stop", "-purge", "v")
	s.awaitFree("v")
	s.mustEventually("volume", "delete", "v")
	s.mustEventually("job", "stop", "-purge", "shelf")
	st.checkCallOrder()
}
