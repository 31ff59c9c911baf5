package endpoints

import (
	"time"

	"berth/endpoints/core"
	"berth/fsm"
	"berth/state"
	"berth/structs"
)

// BenchRaft applies proposals at once, after the given index.
func BenchRaft(store *state.Store, index uint64) core.Raft {
	return &fakeRaft{
		fsm:    fsm.New(store),
		index:  index,
		leader: "127.0.0.1:1",
		isMe:   true,
	}
}

// noLeases is for procedures that are not those of nodes.
type noLeases struct{ core.Leases }

func (*noLeases) Admit(*structs.Node, bool, *structs.AgentProof) error { return nil }

func (*noLeases) Forget(string) {}

func (*noLeases) Renew(string, *structs.AgentProof) (structs.LeaseGrant, error) {
	return structs.LeaseGrant{HeartbeatTTL: 10 * time.Second}, nil
}
