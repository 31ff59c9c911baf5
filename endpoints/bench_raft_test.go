package endpoints_test

import (
	"time"

	"berth/endpoints/core"
	"berth/endpoints/endpointstest"
	"berth/internal/agentproof"
	"berth/state"
	"berth/structs"
	"berth/test/oneserver"
)

// benchRaft applies proposals at once.
func benchRaft(store *state.Store) core.Raft {
	return &endpointstest.FakeRaft{
		Log:        oneserver.LogOf(store),
		LeaderAddr: "127.0.0.1:1",
		IsMe:       true,
	}
}

// noLeases is for procedures that are not those of nodes.
type noLeases struct{ core.Leases }

func (*noLeases) Admit(agentproof.Node, *structs.AgentProof) error { return nil }

func (*noLeases) Forget(string) {}

func (*noLeases) Renew(string, *structs.AgentProof) (structs.LeaseGrant, error) {
	return structs.LeaseGrant{HeartbeatTTL: 10 * time.Second}, nil
}
