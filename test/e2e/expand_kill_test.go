package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"berth/structs"
)

// hold makes the plugin's calls of an RPC wait until release is called: before their effect, after it, or
// "late", which is before it and also after their callers have gone.
func (st *storage) hold(rpc, when string) (release func()) {
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

// held waits until a call of the RPC waits.
func (st *storage) held(rpc string) {
	st.t.Helper()
	eventually(st.t, "a call of "+rpc+" waits", func() error {
		_, err := os.Stat(filepath.Join(st.root, "hold", rpc+".held"))
		return err
	})
}

// later starts a command and waits for it at the end of the test, with any outcome.
func (a *agent) later(args ...string) {
	a.t.Helper()
	cmd := exec.Command(binary, args...)
	cmd.Env = append(os.Environ(), fmt.Sprintf("BERTH_ADDR=http://127.0.0.1:%d", a.http))
	if err := cmd.Start(); err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}

// growing waits until a volume is shown with, or without, a remaining step of a node.
func (a *agent) growing(id string, wanted bool) {
	a.t.Helper()
	eventually(a.t, fmt.Sprintf("volume %s grows: %t", id, wanted), func() error {
		out, err := a.run("volume", "status", id)
		if err == nil && strings.Contains(out, "Grows to") != wanted {
			err = fmt.Errorf("its status:\n%s", out)
		}
		return err
	})
}

func TestVolumesGrow_AfterAKillBetweenTheSteps(t *testing.T) {
	t.Parallel()
	st := newStorage(t)
	c := newServers(t)
	c.addNode().allowRaw().start()
	n := c.nodes[0]
	s, _ := c.leader()
	s.again("job", "run", "-detach", st.job(s, "shelf", "system", "monolith"))
	s.healthyNodes("shelf", 1)
	st.create(s, "v", 300)
	s.again("job", "run", "-detach",
		s.write(watching("v", "v", df, structs.CSIFileSystem)))
	alloc := s.running("v", 1)[0].ID
	s.says(alloc, "size 2")

	for i, kill := range []struct{ what, rpc, when string }{
		{"the agent", "NodeExpandVolume", "before"}, // the node's step has had no effect
		{"the agent", "NodeExpandVolume", "after"},  // an unrecorded call has already had its effect
		{"the leader", "NodeExpandVolume", "before"},
		{"the leader", "NodeExpandVolume", "after"},
		{"the leader", "ControllerExpandVolume", "after"},
	} {
		mib := 360 + 60*i
		release := st.hold(kill.rpc, kill.when)
		c.alive().later("volume", "create", st.volume(s, "v", mib))
		st.held(kill.rpc)
		t.Logf("%d MiB: %s is killed %s the effect of %s",
			mib, kill.what, kill.when, kill.rpc)
		killed := n
		if kill.what == "the leader" {
			killed, _ = c.leader()
		}
		if kill.rpc == "NodeExpandVolume" {
			c.alive().growing("v", true)
		}
		killed.kill()
		release()
		if killed == n {
			n.start()
		}
		s := c.alive()
		s.says(alloc, fmt.Sprintf("size %dx\n", (mib-64)/10)) // the log of xfs takes 64 MiB
		s.growing("v", false)
		if killed != n {
			killed.start()
		}
	}
	if now := s.running("v", 1)[0]; now.ID != alloc || now.TaskStates["t"].Restarts != 0 {
		t.Errorf("allocation %s with %d restarts; was %s",
			now.ID, now.TaskStates["t"].Restarts, alloc)
	}
	c.alike(st)
	s.again("job", "stop", "-purge", "v")
	s.free("v")
	s.again("volume", "delete", "v")
	s.again("job", "stop", "-purge", "shelf")
	st.inOrder()
}
