package node_test

import (
	"maps"
	"strings"
	"testing"

	"berth/endpoints/endpointstest"
	"berth/fsm"
	"berth/internal/agentproof"
	"berth/internal/agenttest"
	"berth/rpc"
	"berth/state"
	"berth/structs"
	"berth/structs/cluster"
)

// registerAgent registers node n1 again, for an agent.
func registerAgent(s *endpointstest.Server, agent *structs.AgentProof) {
	s.T.Helper()
	row := *state.Node(s.Store.Read(), "n1")
	row.Status = structs.NodeReady
	endpointstest.Must(s, structs.NodeRegister, &structs.NodeRegisterRequest{Node: &row, Agent: agent})
}

func beatOf(agent *structs.AgentProof) *structs.NodeHeartbeatRequest {
	return &structs.NodeHeartbeatRequest{
		NodeID:   "n1",
		SecretID: endpointstest.SecretOf("n1"),
		Status:   structs.NodeReady,
		Agent:    agent,
	}
}

// The row has the boot, by which the next leader knows the node. A heartbeat does not change it.
func TestHeartbeat_OfAnotherBootHasToRegister(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	s.Leases.Last = &agentproof.Last{AgentProof: *agenttest.Proof()}
	rebooted := agenttest.Proof()
	rebooted.BootID = "b2"
	endpointstest.Rejected(s, structs.KindNotFound, structs.NodeHeartbeat, beatOf(rebooted))
	registerAgent(s, rebooted)
	if boot := state.Node(s.Store.Read(), "n1").BootID; boot != "b2" {
		t.Errorf("the row has boot %q, want b2", boot)
	}
	endpointstest.Must(s, structs.NodeHeartbeat, beatOf(rebooted))
}

// sent sends a request as it is.
func sent[Req, Resp any](s *endpointstest.Server, m structs.Method[Req, Resp], req *Req) error {
	_, err := rpc.Call(s.T.Context(), s.RPC, m, req)
	return err
}

// A copy of the disk on another machine must not get the lease, or a claim, because it tells nothing. A
// version from before 0.1.0 tells no nonce, and a lower level or none.
func TestNodeCalls_NeedTheProofOfAnAgentAndItsLevel(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	s.AddAlloc("a1", "n1")
	s.AddVolume("v")
	written := s.Raft.Len()
	registration := func(change func(r *structs.NodeRegisterRequest)) *structs.NodeRegisterRequest {
		row := *state.Node(s.Store.Read(), "n1")
		row.Status = structs.NodeReady
		row.Attributes = maps.Clone(row.Attributes)
		r := &structs.NodeRegisterRequest{Node: &row, Agent: agenttest.Proof()}
		change(r)
		return r
	}
	silent := registration(func(r *structs.NodeRegisterRequest) { r.Agent = nil })
	ofAnother := registration(func(r *structs.NodeRegisterRequest) {
		r.Node.ID = "n2"
		r.Agent = nil
	})
	ofLevel1 := registration(func(r *structs.NodeRegisterRequest) {
		r.Node.Attributes[structs.AttrNodeLevel] = "1"
	})
	ofNoLevel := registration(func(r *structs.NodeRegisterRequest) {
		delete(r.Node.Attributes, structs.AttrNodeLevel)
	})
	withoutNonce := &structs.AgentProof{BootID: "b1"}
	claim := &structs.CSIVolumeClaimRequest{
		NodeID:   "n1",
		SecretID: endpointstest.SecretOf("n1"),
		Claims:   []*structs.CSIClaim{endpointstest.Claim("v", "a1")},
	}
	for name, c := range map[string]struct {
		err  error
		says string
	}{
		"a heartbeat":         {sent(s, structs.NodeHeartbeat, beatOf(nil)), "Update the agent"},
		"one without a nonce": {sent(s, structs.NodeHeartbeat, beatOf(withoutNonce)), "Update the agent"},
		"a registration":      {sent(s, structs.NodeRegister, silent), "Update the agent"},
		"that of a new node":  {sent(s, structs.NodeRegister, ofAnother), "Update the agent"},
		"a claim":             {sent(s, structs.CSIVolumeClaim, claim), "Update the agent"},
		"level 1": {sent(s, structs.NodeRegister, ofLevel1),
			"has berth.level 1; these servers need 2 or later: update the agent"},
		"no level": {sent(s, structs.NodeRegister, ofNoLevel),
			"has berth.level 0; these servers need 2 or later: update the agent"},
	} {
		if !structs.IsKind(c.err, structs.KindPrecondition) || !strings.Contains(c.err.Error(), c.says) {
			t.Errorf("%s: %v, want a failed precondition with %q", name, c.err, c.says)
		}
	}
	if s.Raft.Len() != written {
		t.Error("one of them was written")
	}
}

// A rejected agent changes nothing, and gets no lease.
func TestHeartbeat_OfASecondAgentIsRejected(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	registerAgent(s, &structs.AgentProof{BootID: "b1", Nonce: "x"})
	renewed := len(s.Leases.Renewed)
	written := s.Raft.Len()
	second := &structs.AgentProof{BootID: "b2", Nonce: "y", Rejected: true} // by an earlier leader
	err := endpointstest.Rejected(s, structs.KindUnavailable, structs.NodeHeartbeat, beatOf(second))
	if structs.CauseOf(err) != structs.CauseSecondAgent {
		t.Errorf("the heartbeat: %v", err)
	}
	row := *state.Node(s.Store.Read(), "n1")
	row.Name = "other"
	err = endpointstest.Rejected(s, structs.KindUnavailable, structs.NodeRegister,
		&structs.NodeRegisterRequest{Node: &row, Agent: second})
	if structs.CauseOf(err) != structs.CauseSecondAgent {
		t.Errorf("the registration: %v", err)
	}
	if len(s.Leases.Renewed) != renewed || s.Raft.Len() != written {
		t.Error("the second agent got a lease, or changed the row")
	}
}

// A call of an earlier epoch is rejected, also if it would change nothing.
func TestNodeCalls_OfAnEarlierEpochAreRejected(t *testing.T) {
	s := endpointstest.New(t)
	endpointstest.MustPropose(s, fsm.LeaseBoundSet, &cluster.LeaseBoundRequest{Longest: 1})
	s.AddNode("n1", "a")
	early := endpointstest.Must(s, structs.NodeHeartbeat, beatOf(nil)).Epoch
	for _, status := range []string{structs.NodeDown, structs.NodeReady} {
		endpointstest.MustPropose(s, fsm.NodeStatus,
			&structs.NodeStatusUpdate{NodeIDs: []string{"n1"}, Status: status})
	}
	req := &structs.AllocsClientUpdateRequest{
		NodeID:    "n1",
		SecretID:  endpointstest.SecretOf("n1"),
		NodeEpoch: structs.NodeEpoch{Epoch: early},
	}
	err := endpointstest.Rejected(s, structs.KindUnavailable, structs.NodeUpdateAllocs, req)
	if structs.CauseOf(err) != structs.CauseStaleEpoch {
		t.Errorf("a report of epoch %d: %v", early, err)
	}
	req.Epoch = endpointstest.Must(s, structs.NodeHeartbeat, beatOf(nil)).Epoch
	endpointstest.Must(s, structs.NodeUpdateAllocs, req)
}

// The heartbeat in which the node tells that it is clean ends its return.
func TestHeartbeat_EndsTheReturn(t *testing.T) {
	s := endpointstest.New(t)
	endpointstest.MustPropose(s, fsm.LeaseBoundSet, &cluster.LeaseBoundRequest{Longest: 1})
	s.AddNode("n1", "a")
	agent := &structs.AgentProof{BootID: "b1", Nonce: "x"}
	registerAgent(s, agent)
	endpointstest.MustPropose(s, fsm.NodeStatus,
		&structs.NodeStatusUpdate{NodeIDs: []string{"n1"}, Status: structs.NodeDown})
	back := endpointstest.Must(s, structs.NodeHeartbeat, beatOf(agent))
	if !back.Returning || back.Epoch == 0 {
		t.Errorf("the answer is %+v, want a return in an epoch", back.LeaseGrant)
	}
	beat := beatOf(agent)
	for _, other := range []uint64{0, back.Epoch - 1} {
		beat.CleanFor = other
		if again := endpointstest.Must(s, structs.NodeHeartbeat, beat); !again.Returning {
			t.Errorf("a node that is clean for epoch %d ends its return in epoch %d", other, back.Epoch)
		}
	}
	beat.CleanFor = back.Epoch
	if last := endpointstest.Must(s, structs.NodeHeartbeat, beat); last.Returning {
		t.Error("the node still returns")
	}
}

// The first agent may still write to the volumes of a lost node, on its machine.
func TestRegister_NoOtherAgentTakesOverVolumes(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	s.AddAlloc("a1", "n1")
	s.AddVolume("v")
	first := &structs.AgentProof{BootID: "b1", Nonce: "x"}
	second := &structs.AgentProof{BootID: "b2", Nonce: "y", Rejected: true}
	s.Claim("v", "a1", "n1") // first: the registration has no plugin
	registerAgent(s, first)
	endpointstest.MustPropose(s, fsm.NodeStatus,
		&structs.NodeStatusUpdate{NodeIDs: []string{"n1"}, Status: structs.NodeDown})
	row := *state.Node(s.Store.Read(), "n1")
	row.Status = structs.NodeReady
	err := endpointstest.Rejected(s, structs.KindUnavailable, structs.NodeRegister,
		&structs.NodeRegisterRequest{Node: &row, Agent: second})
	if structs.CauseOf(err) != structs.CauseSecondAgent {
		t.Errorf("with a volume: %v", err)
	}
	detail := endpointstest.Must(s, structs.NodeGet, &structs.NodeGetRequest{NodeID: "n1"}).Node
	if got := detail.SecondAgent; got == nil || got.BootID != "b2" || got.Reason != err.Error() {
		t.Errorf("an operator sees %+v, want the second agent with the reason", got)
	}
	endpointstest.MustPropose(s, fsm.VolumeUnpublish, &structs.CSIVolumeUnpublishRequest{
		Operator: "the machine is off",
		Claims:   []structs.CSIClaimKey{{Namespace: "default", VolumeID: "v", AllocID: "a1"}},
	})
	registerAgent(s, second)
}

// A copy of the disk of a lost node comes on another machine. The leader is new, and knows the row alone.
func TestRegister_ACopyOnAnotherMachineTakesOverNoVolumes(t *testing.T) {
	s := endpointstest.New(t)
	first := &structs.AgentProof{BootID: "b1", Machine: "machine:1", Nonce: "x", Marks: []string{"boot"}}
	loseWithVolume(s, first)
	if row := state.Node(s.Store.Read(), "n1"); row.Machine != "machine:1" || row.Mark != "claim" {
		t.Fatalf("the row has the machine %q and the mark %q, want machine:1 and claim", row.Machine, row.Mark)
	}

	all := []string{"boot2", "claim", "boot"}
	for name, given := range map[string]*structs.AgentProof{
		"on another machine":         {BootID: "b2", Machine: "machine:2", Nonce: "x", Marks: all},
		"from before the claim":      {BootID: "b2", Machine: "machine:1", Nonce: "x", Marks: []string{"boot"}},
		"which tells nothing itself": {BootID: "b2", Nonce: "x"},
	} {
		err := endpointstest.Rejected(s, structs.KindUnavailable, structs.NodeRegister, returnOf(s, given))
		if structs.CauseOf(err) != structs.CauseSecondAgent {
			t.Errorf("a copy %s: %v", name, err)
		}
	}
	rebooted := &structs.AgentProof{BootID: "b2", Machine: "machine:1", Nonce: "x", Marks: all}
	endpointstest.Must(s, structs.NodeRegister, returnOf(s, rebooted))
}

// The records of an agent were removed. The leader is new, and knows its place from the row.
func TestRegister_AnAgentWithoutRecordsIsKnownByItsPlace(t *testing.T) {
	s := endpointstest.New(t)
	at := func(store, nonce, mark string) *structs.AgentProof {
		return &structs.AgentProof{
			BootID: "b1", Machine: "machine:1", Store: store, Nonce: nonce, Marks: []string{mark},
		}
	}
	loseWithVolume(s, at("8:1", "x", "boot"))
	err := endpointstest.Rejected(s, structs.KindUnavailable, structs.NodeRegister,
		returnOf(s, at("8:2", "y", "new")))
	if structs.CauseOf(err) != structs.CauseSecondAgent {
		t.Errorf("a copy of its directory: %v", err)
	}
	begins := at("8:1", "z", "new")
	endpointstest.Must(s, structs.NodeRegister, returnOf(s, begins))
	endpointstest.Must(s, structs.NodeHeartbeat, beatOf(begins))
}

// loseWithVolume registers the agent of a node that has a volume, and takes the node down.
func loseWithVolume(s *endpointstest.Server, first *structs.AgentProof) {
	s.T.Helper()
	s.AddNode("n1", "a")
	s.AddAlloc("a1", "n1")
	s.AddVolume("v")
	s.Claim("v", "a1", "n1") // first: the registration has no plugin
	registerAgent(s, first)
	endpointstest.Must(s, structs.CSIVolumeClaim, &structs.CSIVolumeClaimRequest{
		NodeID:   "n1",
		SecretID: endpointstest.SecretOf("n1"),
		FromAgent: structs.FromAgent{Agent: &structs.AgentProof{
			BootID: "b1", Machine: "machine:1", Nonce: "x", Marks: []string{"claim", "boot"}}},
		Claims: []*structs.CSIClaim{endpointstest.Claim("v", "a1")},
	})
	endpointstest.MustPropose(s, fsm.NodeStatus,
		&structs.NodeStatusUpdate{NodeIDs: []string{"n1"}, Status: structs.NodeDown})
}

// returnOf is a registration of a node that was lost.
func returnOf(s *endpointstest.Server, agent *structs.AgentProof) *structs.NodeRegisterRequest {
	row := *state.Node(s.Store.Read(), "n1")
	row.Status = structs.NodeReady
	return &structs.NodeRegisterRequest{Node: &row, Agent: agent}
}

// A heartbeat is short, so the row may have a mark that it lacks: a registration has all.
func TestHeartbeat_WithoutTheMarkOfTheRowHasToRegister(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	agent := &structs.AgentProof{BootID: "b1", Nonce: "x", Marks: []string{"older"}}
	registerAgent(s, agent)
	agent.Marks = []string{"newest", "newer"}
	endpointstest.Rejected(s, structs.KindNotFound, structs.NodeHeartbeat, beatOf(agent))
	agent.Marks = []string{"newest", "newer", "older"}
	registerAgent(s, agent)
	agent.Marks = agent.Marks[:2]
	endpointstest.Must(s, structs.NodeHeartbeat, beatOf(agent))
	if got := endpointstest.Must(s, structs.NodeGet,
		&structs.NodeGetRequest{NodeID: "n1"}).Node.Mark; got != "" {
		t.Errorf("an operator gets the mark %q", got)
	}
}

// A pool may want a proof after each reboot.
func TestRegister_ARebootWaitsForAProofWhereThePoolAsks(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	s.AddAlloc("a1", "n1")
	s.AddVolume("v")
	s.Claim("v", "a1", "n1")
	agent := &structs.AgentProof{BootID: "b1", Machine: "machine:1", Nonce: "x", Marks: []string{"boot"}}
	row := *state.Node(s.Store.Read(), "n1")
	row.NodePool = "twins"
	endpointstest.Must(s, structs.NodeRegister, &structs.NodeRegisterRequest{Node: &row, Agent: agent})
	endpointstest.MustPropose(s, fsm.NodePoolApply, &cluster.NodePoolApplyRequest{
		Pool: &cluster.NodePool{Name: "twins", Reboot: cluster.RebootAsk}})
	endpointstest.MustPropose(s, fsm.NodeStatus,
		&structs.NodeStatusUpdate{NodeIDs: []string{"n1"}, Status: structs.NodeDown})
	agent.BootID = "b2"
	agent.Marks = []string{"boot2", "boot"}
	err := endpointstest.Rejected(s, structs.KindUnavailable, structs.NodeRegister,
		&structs.NodeRegisterRequest{Node: &row, Agent: agent})
	if structs.CauseOf(err) != structs.CauseSecondAgent {
		t.Errorf("after a reboot: %v", err)
	}
}
