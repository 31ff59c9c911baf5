package admission

import (
	"testing"

	"berth/structs"
)

func TestCheck_AcceptsOneAgentOfANode(t *testing.T) {
	ready := &structs.Node{ID: "n", Status: structs.NodeReady, BootID: "boot1"}
	down := &structs.Node{ID: "n", Status: structs.NodeDown, BootID: "boot1"}
	older := &structs.Node{ID: "n", Status: structs.NodeReady}
	known := &structs.AgentProof{BootID: "boot1", Nonce: "k", Previous: "j"}
	proof := func(boot, nonce, previous string) *structs.AgentProof {
		return &structs.AgentProof{BootID: boot, Nonce: nonce, Previous: previous}
	}
	rejected := proof("boot1", "x", "i")
	rejected.Rejected = true

	for name, c := range map[string]struct {
		row          *structs.Node
		known, given *structs.AgentProof
		accepted     bool
	}{
		"a new node":                          {nil, nil, proof("boot1", "a", ""), true},
		"an agent of level 1":                 {ready, known, nil, true},
		"a proof without a nonce":             {ready, known, proof("boot2", "", ""), true},
		"the next heartbeat":                  {ready, known, proof("boot1", "l", "k"), true},
		"after a lost answer":                 {ready, known, proof("boot1", "k", "j"), true},
		"after a lost request":                {ready, proof("boot1", "j", "i"), proof("boot1", "k", "j"), true},
		"a restart of the agent":              {ready, known, proof("boot1", "l", "k"), true},
		"a reboot":                            {ready, known, proof("boot2", "l", "k"), true},
		"a reboot after a lost answer":        {ready, known, proof("boot2", "k", "j"), true},
		"a copy that has fallen behind":       {ready, known, proof("boot2", "x", "i"), false},
		"such a copy in the same boot":        {ready, known, proof("boot1", "x", "i"), false},
		"one that sends what both had":        {ready, known, proof("boot2", "j", "i"), false},
		"one that has sent nothing before":    {ready, known, proof("boot1", "x", ""), false},
		"a copy after the lease":              {down, nil, proof("boot2", "x", "i"), true},
		"the first one after its lease":       {down, nil, proof("boot1", "l", "k"), true},
		"a new leader, the same boot":         {ready, nil, proof("boot1", "l", "k"), true},
		"a new leader, another boot":          {ready, nil, proof("boot2", "l", "k"), false},
		"a new leader, rejected before":       {ready, nil, rejected, false},
		"rejected before, and it continues":   {ready, proof("boot1", "i", ""), rejected, true},
		"rejected before, after the lease":    {down, nil, rejected, true},
		"a row of an agent of level 1":        {older, nil, proof("boot1", "a", ""), true},
		"such a row, and a proof since":       {older, known, proof("boot2", "x", ""), false},
		"such a row, and the next heartbeat":  {older, known, proof("boot1", "l", "k"), true},
		"no nonce is known by an empty one":   {ready, proof("boot1", "k", ""), proof("boot2", "x", ""), false},
		"a deleted node whose agent is there": {nil, known, proof("boot2", "x", "i"), true},
	} {
		err := Check(c.row, c.known, c.given)
		if (err == nil) != c.accepted {
			t.Errorf("%s: %v, want accepted: %v", name, err, c.accepted)
		}
		if err != nil && structs.CauseOf(err) != structs.CauseSecondAgent {
			t.Errorf("%s: %v has the cause %q", name, err, structs.CauseOf(err))
		}
	}
}
