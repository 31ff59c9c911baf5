package agentproof

import (
	"strings"
	"testing"
	"time"

	"berth/structs"
)

// of returns what a leader knows of a node without a machine and a mark.
func of(row *structs.Node, last *Last, volumes bool, leader string) Node {
	return Node{Row: row, Last: last, HasVolumes: volumes, LeaderBoot: leader}
}

func TestCheck_AcceptsOneAgentOfANode(t *testing.T) {
	ready := &structs.Node{ID: "n", Status: structs.NodeReady, BootID: "boot1"}
	down := &structs.Node{ID: "n", Status: structs.NodeDown, BootID: "boot1"}
	place := structs.AgentProof{BootID: "boot1", Nonce: "k", Previous: "j"}
	known := &Last{AgentProof: place}                       // its lease has ended
	counts := &Last{AgentProof: place, Counts: time.Second} // or not
	proof := func(boot, nonce, previous string) *structs.AgentProof {
		return &structs.AgentProof{BootID: boot, Nonce: nonce, Previous: previous}
	}
	copied := proof("boot1", "l", "k")
	copied.Store = "8:1"
	rejected := proof("boot1", "x", "i")
	rejected.Rejected = true

	continued := &Last{AgentProof: *proof("boot1", "i", "")}
	for name, c := range map[string]struct {
		node     Node
		given    *structs.AgentProof
		accepted bool
	}{
		"a new node":                         {Node{}, proof("boot1", "a", ""), true},
		"the next heartbeat":                 {of(ready, known, true, ""), proof("boot1", "l", "k"), true},
		"after a lost answer":                {of(ready, known, true, ""), proof("boot1", "k", "j"), true},
		"a restart within the lease":         {of(ready, counts, true, ""), proof("boot1", "l", "k"), true},
		"a reboot within the lease":          {of(ready, counts, true, ""), proof("boot2", "l", "k"), false},
		"a new copy within the lease":        {of(ready, counts, true, ""), copied, false},
		"that copy after the lease":          {of(ready, known, true, ""), copied, true},
		"a reboot":                           {of(ready, known, true, ""), proof("boot2", "l", "k"), true},
		"a reboot after a lost answer":       {of(ready, known, true, ""), proof("boot2", "k", "j"), true},
		"a reboot over the end of the lease": {of(down, known, true, ""), proof("boot2", "l", "k"), true},
		"a copy that has fallen behind":      {of(ready, known, false, ""), proof("boot2", "x", "i"), false},
		"such a copy in the same boot":       {of(ready, known, false, ""), proof("boot1", "x", "i"), false},
		"one that sends what both had":       {of(ready, known, false, ""), proof("boot2", "j", "i"), false},
		"one that has sent nothing before":   {of(ready, known, false, ""), proof("boot1", "x", ""), false},
		"a copy after the lease":             {of(down, known, false, ""), proof("boot2", "x", "i"), true},
		"a copy while the node has volumes":  {of(down, known, true, ""), proof("boot2", "x", "i"), false},
		"a new leader, the same boot":        {of(ready, nil, true, ""), proof("boot1", "l", "k"), true},
		"a new leader, another boot":         {of(ready, nil, true, "boot3"), proof("boot2", "l", "k"), false},
		"one that switched on with the node": {of(ready, nil, true, "boot2"), proof("boot2", "l", "k"), true},
		"rejected, and in such a boot":       {of(ready, nil, true, "boot1"), rejected, false},
		"a new leader, such a node is down":  {of(down, nil, true, ""), proof("boot2", "l", "k"), true},
		"a new leader, rejected before":      {of(ready, nil, false, ""), rejected, false},
		"that one after the lease":           {of(down, nil, false, ""), rejected, true},
		"that one while there are volumes":   {of(down, nil, true, ""), rejected, false},
		"rejected before, and it continues":  {of(ready, continued, true, ""), rejected, true},
		"a deleted node":                     {of(nil, known, false, ""), proof("boot2", "x", "i"), true},
	} {
		err := Check(c.node, c.given)
		if (err == nil) != c.accepted {
			t.Errorf("%s: %v, want accepted: %v", name, err, c.accepted)
		}
		cause := structs.CauseSecondAgent
		mayBeTheSame := c.node.Last == counts ||
			c.node.Last == nil && c.given != nil && !c.given.Rejected
		if mayBeTheSame {
			cause = "" // an agent that was rejected would stay so while the node has volumes
		}
		if err != nil && structs.CauseOf(err) != cause {
			t.Errorf("%s: %v has the cause %q", name, err, structs.CauseOf(err))
		}
	}
}

// A copy of a disk on another machine would pass if it only told nothing.
func TestCheck_RejectsARequestWithoutAProof(t *testing.T) {
	rows := map[string]*structs.Node{
		"a new node": nil,
		"ready":      {ID: "n", Status: structs.NodeReady, BootID: "boot1"},
		"down":       {ID: "n", Status: structs.NodeDown, BootID: "boot1"},
	}
	for name, row := range rows {
		for _, given := range []*structs.AgentProof{nil, {}, {BootID: "boot1", Machine: "machine:1"}} {
			err := Check(of(row, nil, false, ""), given)
			if !structs.IsKind(err, structs.KindPrecondition) ||
				!strings.Contains(err.Error(), "Update the agent of the node") {
				t.Errorf("%s: the proof %+v gets %v, want a failed precondition with the remedy", name, given, err)
			}
		}
	}
}

// An operator reads it in the log of the second agent.
func TestCheck_NamesTheOtherAgentAndTheRemedy(t *testing.T) {
	row := &structs.Node{ID: "n", Name: "web1", HTTPAddr: "10.0.0.1:4646", BootID: "b1"}
	second := &structs.AgentProof{BootID: "b2", Nonce: "x"}
	for status, want := range map[string][]string{
		structs.NodeReady: {"web1", "10.0.0.1:4646", "b1", "lost-nodes.md"},
		structs.NodeDown:  {"web1", "10.0.0.1:4646", "b1", "berth node confirm-lost n"},
	} {
		row.Status = status
		last := &Last{AgentProof: structs.AgentProof{Nonce: "k"}}
		err := Check(of(row, last, true, ""), second)
		for _, text := range want {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("the node is %s: %v, want %q in it", status, err, text)
			}
		}
	}

	// Its own machine may run the tasks of the other agent: that must not be off, but those must end.
	row.Status = structs.NodeDown
	second.BootID = "b1"
	err := Check(of(row, &Last{AgentProof: structs.AgentProof{Nonce: "k"}}, true, ""), second)
	for _, text := range []string{"same boot: end the tasks", "reboot it. Then: berth node confirm-lost n"} {
		if err == nil || !strings.Contains(err.Error(), text) || strings.Contains(err.Error(), "machine is off") {
			t.Errorf("in the same boot: %v, want %q in it", err, text)
		}
	}
}
