package raftnet

import (
	"sync"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"berth/internal/agentproof"
)

// votes checks the votes that a candidate gets. The disk of a server may have been put back to an earlier
// state while no leader could see it. With its vote a server could lead that lacks entries which a majority
// had stored.
type votes struct {
	indexes Indexes
	logger  hclog.Logger
	mu      sync.Mutex
	told    map[raft.ServerID]uint64 // the entries that were named as missing
}

// count reports whether the vote of a server counts: its log has what it had acknowledged, as far as the
// state of this candidate knows. A server that does not tell its last entry has no vote.
func (v *votes) count(id raft.ServerID, target raft.ServerAddress) bool {
	acknowledged := v.indexes.Acknowledged(id)
	if acknowledged == 0 {
		return true
	}
	last, err := v.indexes.Last(target)
	switch {
	case err != nil:
		v.logger.Warn("a vote does not count: its server does not tell its last entry",
			"server_id", id, "error", err)
		return false
	case !agentproof.LacksEntries(last, acknowledged):
		return true
	}

	v.mu.Lock()
	defer v.mu.Unlock()
	if v.told[id] != acknowledged {
		v.told[id] = acknowledged
		v.logger.Error("a vote does not count: the server lacks entries that it has acknowledged, its disk was "+
			"put back to an earlier state. Start the other servers: their leader adds it anew. If they are lost "+
			"for good, write peers.json on this server, and let the other one join with a new data directory",
			"server_id", id, "address", target, "last_index", last, "acknowledged", acknowledged)
	}
	return false
}
