package csi_test

import (
	"strings"
	"testing"

	"berth/endpoints/endpointstest"
	"berth/internal/agentproof"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
)

// asAgent is the part of a request that has the proof of an agent.
func asAgent(p structs.AgentProof) structs.FromAgent { return structs.FromAgent{Agent: &p} }

// newAgents returns a server with the volume v, allocation a1 on node n1, and the accepted agent of n1.
func newAgents(t *testing.T) (*endpointstest.Server, structs.AgentProof) {
	t.Helper()
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	s.AddAlloc("a1", "n1")
	s.AddVolume("v")
	own := structs.AgentProof{
		BootID:   "b1",
		Machine:  "machine:1",
		Store:    "1:2",
		Nonce:    "nonce-l",
		Previous: "nonce-k",
		Marks:    []string{"m1"},
	}
	row := *state.Node(s.Store.Read(), "n1")
	endpointstest.Must(s, structs.NodeRegister, &structs.NodeRegisterRequest{Node: &row, Agent: &own})
	return s, own
}

// The leader alone knows the nonce and the store of the last heartbeat. They tell two agents apart that run
// on one machine, in one boot.
func TestClaim_OfAnAgentWithoutTheLeaseChangesNothing(t *testing.T) {
	s, own := newAgents(t)
	s.Leases.Last = &agentproof.Last{AgentProof: own, Counts: 5e9}
	written := s.Raft.Len()
	for name, edit := range map[string]func(*structs.AgentProof){
		"on another machine": func(p *structs.AgentProof) { p.Machine = "machine:2" },
		"in another boot":    func(p *structs.AgentProof) { p.BootID = "b2" },
		"of an older disk":   func(p *structs.AgentProof) { p.Marks = []string{"m2", "m0"} },
		"with an old nonce":  func(p *structs.AgentProof) { p.Nonce, p.Previous = "nonce-j", "nonce-i" },
		"in another store":   func(p *structs.AgentProof) { p.Store = "1:3" },
	} {
		other := own
		other.Marks = []string{"stolen", "m1"}
		edit(&other)
		claim := &structs.CSIVolumeClaimRequest{
			NodeID: "n1", SecretID: endpointstest.SecretOf("n1"), FromAgent: asAgent(other),
			Claims: []*structs.CSIClaim{endpointstest.Claim("v", "a1")},
		}
		err := endpointstest.Rejected(s, structs.KindUnavailable, structs.CSIVolumeClaim, claim)
		if !strings.Contains(err.Error(), "node n1") || !strings.Contains(err.Error(), "b1") {
			t.Errorf("an agent %s claims: %v", name, err)
		}
		release := &structs.CSIVolumeUnpublishRequest{
			NodeID: "n1", SecretID: endpointstest.SecretOf("n1"), FromAgent: asAgent(other),
			Claims: []structs.CSIClaimKey{{Namespace: "default", VolumeID: "v", AllocID: "a1"}},
		}
		endpointstest.Rejected(s, structs.KindUnavailable, structs.CSIVolumeUnpublish, release)
		endpointstest.Rejected(s, structs.KindUnavailable, structs.CSIVolumeNodeExpanded,
			&structs.CSINodeExpandOutcome{
				NodeID: "n1", SecretID: endpointstest.SecretOf("n1"), FromAgent: asAgent(other), VolumeID: "v", AllocID: "a1",
			})
	}
	tx := s.Store.Read()
	if mark := state.Node(tx, "n1").Mark; mark != "m1" || csi.Claim(tx, "default", "v", "a1") != nil ||
		s.Raft.Len() != written {
		t.Errorf("the row has the mark %q, and the log %d entries more", mark, s.Raft.Len()-written)
	}
	other := own
	other.Nonce = strings.Repeat("x", structs.MaxName+1)
	endpointstest.Rejected(s, structs.KindInvalid, structs.CSIVolumeClaim, &structs.CSIVolumeClaimRequest{
		NodeID: "n1", SecretID: endpointstest.SecretOf("n1"), FromAgent: asAgent(other),
		Claims: []*structs.CSIClaim{endpointstest.Claim("v", "a1")},
	})
}

// The agent with the lease claims with the nonce that the leader knows, or with the next one. A repeat after
// a lost answer is the same.
func TestClaim_OfTheAgentWithTheLease(t *testing.T) {
	s, own := newAgents(t)
	claim := func(p structs.AgentProof) {
		t.Helper()
		endpointstest.Must(s, structs.CSIVolumeClaim, &structs.CSIVolumeClaimRequest{
			NodeID: "n1", SecretID: endpointstest.SecretOf("n1"), FromAgent: asAgent(p),
			Claims: []*structs.CSIClaim{endpointstest.Claim("v", "a1")},
		})
	}
	claim(own) // the leader is new, and knows no nonce
	s.Leases.Last = &agentproof.Last{AgentProof: own, Counts: 5e9}
	own.Marks = []string{"m2", "m1"}
	claim(own)
	claim(own)
	next := own
	next.Nonce, next.Previous = "nonce-m", "nonce-l"
	claim(next)
	if mark := state.Node(s.Store.Read(), "n1").Mark; mark != "m2" {
		t.Errorf("the row has the mark %q, want m2", mark)
	}
	if strings.Contains(s.Raft.Text(), "nonce-") {
		t.Error("the log has a nonce, which the leader alone keeps")
	}
	endpointstest.Must(s, structs.CSIVolumeUnpublish, &structs.CSIVolumeUnpublishRequest{
		NodeID: "n1", SecretID: endpointstest.SecretOf("n1"), FromAgent: asAgent(next),
		Claims: []structs.CSIClaimKey{{Namespace: "default", VolumeID: "v", AllocID: "a1"}},
	})
	if s.Claimed() {
		t.Error("the claim is not released")
	}
}
