package endpoints

import (
	"time"

	"berth/fsm"
	"berth/state"
)

// BenchRaft applies proposals at once, after the given index.
func BenchRaft(store *state.Store, index uint64) Raft {
	return &fakeRaft{
		fsm:    fsm.New(store),
		index:  index,
		leader: "127.0.0.1:1",
		isMe:   true,
	}
}

// noLeases is for procedures that are not those of nodes.
type noLeases struct{}

func (*noLeases) Renew(string) time.Duration { return 10 * time.Second }
