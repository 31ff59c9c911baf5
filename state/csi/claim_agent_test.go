package csi_test

import (
	"fmt"
	"strings"
	"testing"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
)

// accepted registers node n1 for an agent.
func (w *fixture) accepted(agent *structs.AgentProof) {
	w.T.Helper()
	n := aNode("n1")
	n.HTTPAddr = "10.0.0.1:4646"
	n.BootID = agent.BootID
	n.Machine = agent.Machine
	n.Mark = agent.Mark()
	do(w, state.NodeRegister, &structs.NodeRegisterRequest{
		Node:         n,
		CSI:          []*structs.CSIPluginInstance{anInstance("p", structs.CSIKindNode, true)},
		WriteOptions: w.Now(),
	})
}

// claimAs claims a volume for an allocation of node n1.
func (w *fixture) claimAs(agent *structs.AgentProof, alloc string, guarded bool) error {
	c := aClaim("v", alloc, wr, mnmw)
	c.Guarded = guarded
	return try(w, csi.VolumeClaim, &structs.CSIVolumeClaimRequest{
		NodeID:       "n1",
		SecretID:     "secret-n1",
		FromAgent:    structs.FromAgent{Agent: agent},
		Claims:       []*structs.CSIClaim{c},
		WriteOptions: w.Now(),
	})
}

func agentOf(boot, machine string, marks ...string) *structs.AgentProof {
	return &structs.AgentProof{BootID: boot, Machine: structs.MachineID(machine), Marks: marks}
}

// A copy of the disk of a node has the ID and the secret of the node. The agent that the servers have
// accepted is in the row: the claims of another one would lock it out by their mark, and the releases of
// another one would free volumes that it has mounted.
func TestClaims_OfAnotherAgentChangeNothing(t *testing.T) {
	w := newFixture(t)
	w.accepted(agentOf("b1", "machine:1", "m1"))
	w.Alloc("a1", "j", "n1")
	w.Alloc("a2", "j", "n1")
	w.Volume("v", "p")
	own := agentOf("b1", "machine:1", "m2", "m1")
	if err := w.claimAs(own, "a1", false); err != nil {
		t.Fatal(err)
	}
	if mark := state.Node(w.Store.Read(), "n1").Mark; mark != "m2" {
		t.Fatalf("the row has the mark %q, want that of the claim", mark)
	}

	rows := func() string {
		tx := w.Store.Read()
		return fmt.Sprintf("%+v %+v %+v", state.Node(tx, "n1"), csi.Claim(tx, "default", "v", "a1"),
			csi.Claim(tx, "default", "v", "a2"))
	}
	before := rows()
	for name, given := range map[string]*structs.AgentProof{
		"on another machine":             agentOf("b1", "machine:2", "m2", "m1"),
		"that does not know its machine": agentOf("b1", "", "m2", "m1"),
		"in another boot":                agentOf("b2", "machine:1", "m3", "m2"),
		"from before the last claim":     agentOf("b1", "machine:1", "m3", "m1"),
		"that does not say which it is":  nil,
	} {
		from := structs.FromAgent{Agent: given}
		key := structs.CSIClaimKey{Namespace: structs.DefaultNamespace, VolumeID: "v", AllocID: "a1"}
		for act, err := range map[string]error{
			"claims":            w.claimAs(given, "a2", false),
			"guards its claim":  w.claimAs(given, "a1", true),
			"repeats its claim": w.claimAs(given, "a1", false),
			"releases it": try(w, state.VolumeUnpublish, &structs.CSIVolumeUnpublishRequest{
				NodeID: "n1", SecretID: "secret-n1", FromAgent: from, Claims: []structs.CSIClaimKey{key}}),
			"has grown it": try(w, csi.NodeExpanded, &structs.CSINodeExpandOutcome{
				NodeID: "n1", SecretID: "secret-n1", FromAgent: from, VolumeID: "v", AllocID: "a1"}),
		} {
			if structs.CauseOf(err) != structs.CauseSecondAgent {
				t.Errorf("an agent %s %s: %v", name, act, err)
				continue
			}
			for _, says := range []string{"node n1", "name-n1 (10.0.0.1:4646, boot b1)", "lost-nodes.md"} {
				if !strings.Contains(err.Error(), says) {
					t.Errorf("an agent %s %s: %v; want %q in it", name, act, err, says)
				}
			}
			if given != nil && !strings.Contains(err.Error(), "in boot "+given.BootID) {
				t.Errorf("an agent %s %s: %v; want its boot in it", name, act, err)
			}
		}
	}
	if now := rows(); now != before {
		t.Errorf("the rows are %s\nand were %s", now, before)
	}
	if err := w.claimAs(own, "a1", false); err != nil {
		t.Errorf("the repeat of a claim whose answer was lost: %v", err)
	}
	if err := w.claimAs(own, "a2", false); err != nil {
		t.Errorf("the agent of the node: %v", err)
	}
}

// The agent of a node changes with a registration alone.
func TestClaims_AreOfTheAgentThatRegisteredLast(t *testing.T) {
	for name, c := range map[string]struct {
		next   *structs.AgentProof
		purged bool
	}{
		"after a restart of the agent":      {agentOf("b1", "machine:1", "m2", "m1"), false},
		"after a reboot":                    {agentOf("b2", "machine:1", "m3", "m2", "m1"), false},
		"purged and back on other hardware": {agentOf("b3", "machine:2", "n1"), true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			first := agentOf("b1", "machine:1", "m1")
			w.accepted(first)
			w.Alloc("a1", "j", "n1")
			w.Volume("v", "p")
			if c.purged {
				w.Stop("a1", structs.AllocComplete)
				do(w, state.NodeDeregister, &structs.NodeDeregisterRequest{NodeIDs: []string{"n1"}})
				if err := w.claimAs(c.next, "a1", false); !structs.IsKind(err, structs.KindNotFound) {
					t.Errorf("before the node has registered: %v", err)
				}
			}
			w.accepted(c.next)
			w.Alloc("a2", "j", "n1")
			if err := w.claimAs(c.next, "a2", false); err != nil {
				t.Error(err)
			}
			err := w.claimAs(first, "a2", false)
			if structs.CauseOf(err) != structs.CauseSecondAgent {
				t.Errorf("the agent from before: %v", err)
			}
		})
	}
}
