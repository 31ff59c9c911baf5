package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/client/store"
	"berth/structs"
)

var controllerAttaches = []string{"ControllerPublishVolume", "ControllerUnpublishVolume"}

// attachCalls lists "NODE RPC" for the answered calls that attach or detach a volume, in the order of their
// effects.
func (st *shelfDir) attachCalls(volume string) (found []string) {
	for line := range strings.Lines(st.read("calls")) {
		words := strings.Fields(line)
		if len(words) == 4 && words[2] == "shelf-"+volume &&
			slices.Contains(controllerAttaches, words[1]) {
			found = append(found, words[0]+" "+words[1])
		}
	}
	return found
}

// awaitHolder waits until the plugin holds a call of the RPC, and returns the node of the call.
func (st *shelfDir) awaitHolder(rpc string) (node string) {
	st.t.Helper()
	eventually(st.t, "a call of "+rpc+" waits at a node", func() error {
		text, err := os.ReadFile(filepath.Join(st.root, "hold", rpc+".held"))
		node = string(text)
		if err == nil && node == "" {
			err = fmt.Errorf("the file is empty")
		}
		return err
	})
	return node
}

// nodeNamed returns the node of that name.
func (c *testCluster) nodeNamed(name string) *agent {
	return c.nodes[slices.IndexFunc(c.nodes, func(n *agent) bool { return n.name == name })]
}

// lateCall has the fields of an agent's record of a call of a plugin that was not answered yet.
type lateCall struct {
	PluginID, Instance, Volume, RPC, Where, BootID string
	Since                                          int64
}

// expireLateCalls makes the records of unanswered calls of an agent that does not run so old that the calls
// can no longer be carried out. It returns their RPCs.
func (a *agent) expireLateCalls() (rpcs []string) {
	a.t.Helper()
	db, err := store.Open(a.data("client"))
	if err != nil {
		a.t.Fatal(err)
	}
	defer db.Close()
	calls := store.NewTable[lateCall]("csi_calls")
	records, err := calls.All(db, "")
	if err != nil {
		a.t.Fatal(err)
	}
	for _, r := range records {
		r.Value.Since -= int64(4 * time.Minute)
		if err := calls.Put(db, r.Key, r.Value); err != nil {
			a.t.Fatal(err)
		}
		rpcs = append(rpcs, r.Value.RPC)
	}
	return rpcs
}

// An agent is killed while its plugin detaches a volume. The plugin continues, and detaches after the agent
// is back. Meanwhile the same node needs the volume again. If another controller attached it there, the late
// detach would remove it from its user.
func TestLateDetach_IsSettledWhereItWasMade(t *testing.T) {
	t.Parallel()
	st, c := clusterWithShelf(t, 2)
	s, _ := c.leader()
	st.createVolume(s, "v", 300)
	// The calls for one volume go to one controller: a user of the volume runs on the other node.
	user := "n0"
	if strings.Contains(st.read("calls"), user+" CreateVolume") {
		user = "n1"
	}
	s.runUntilOutput(appendingJob("v", user, "first"), "first")
	before := len(st.attachCalls("v"))
	release := st.holdCalls("ControllerUnpublishVolume", "late")
	s.mustEventually("job", "stop", "v")
	caller := c.nodeNamed(st.awaitHolder("ControllerUnpublishVolume"))
	if caller.name == user {
		t.Fatalf("node %s detaches from itself", user)
	}
	caller.kill()
	s.mustEventually("job", "run", "-detach",
		s.writeJob(appendingJob("v", user, "second")))
	caller.start()
	s.healthyNodes("shelf", 2)
	c.awaitUnsettled("v")
	if calls := st.attachCalls("v")[before:]; len(calls) > 0 {
		t.Errorf("calls while the detach is under way: %v", calls)
	}
	release()
	eventually(t, "the late detach has its effect", func() error { return st.checkAttached() })
	c.awaitUnsettled("v") // not known to the servers

	caller.kill()
	if late := caller.expireLateCalls(); !slices.Equal(late, []string{"ControllerUnpublishVolume"}) {
		t.Errorf("on record are %v", late)
	}
	caller.start()
	eventually(t, "the volume is attached again", func() error {
		_, _ = s.run("volume", "retry", "v") // at once, and not at the next try
		return st.checkAttached("v " + user)
	})
	detach := caller.name + " ControllerUnpublishVolume"
	calls := st.attachCalls("v")[before:]
	repeated := slices.IndexFunc(calls, func(call string) bool { return call != detach })
	if repeated < 2 || !strings.HasSuffix(calls[repeated], "ControllerPublishVolume") {
		t.Errorf("calls are %v, want the detach, its repeat at the same node and an attach", calls)
	}
	s.runUntilOutput(appendingJob("v", user, "second"), "first", "second")
	c.awaitAgreement(st)
	c.stopAndDelete(st, "v")
}

// checkAttached returns an error unless volumes are attached exactly there, each "volume node".
func (st *shelfDir) checkAttached(want ...string) error {
	if at := st.recordedPlaces("attached"); !slices.Equal(at, want) {
		return fmt.Errorf("attached are %v, want %v", at, want)
	}
	return nil
}

// awaitUnsettled has a detach tried again, and waits until it is shown that its outcome is not known.
func (c *testCluster) awaitUnsettled(id string) {
	c.t.Helper()
	s := c.liveServer()
	s.mustEventually("volume", "retry", id)
	eventually(c.t, "the status says that the call may still be carried out", func() error {
		out, err := s.run("volume", "status", id)
		if err == nil && !strings.Contains(out, "was not answered, and may still be carried out") {
			err = fmt.Errorf("its status:\n%s", out)
		}
		return err
	})
	v, err := get[*structs.CSIVolumeDetail](s, "/v1/volume/csi/"+id)
	if err != nil || len(v.Attachments) != 1 {
		c.t.Fatalf("volume %s: %+v, %v", id, v, err)
	}
	if a := v.Attachments[0]; a.State != structs.AttachmentDetaching || a.Call == nil {
		c.t.Errorf("the attachment before the outcome is known: %+v", a)
	}
}
