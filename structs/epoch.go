package structs

import "time"

// NodeEpoch is the part of a request that has the epoch of a node (see Node.Epoch): of the node that sends
// the request, or of the one that the servers call. 0: the node has none, or the sender has level 1. Then the
// request passes.
type NodeEpoch struct {
	Epoch uint64 `json:",omitempty" codec:",omitempty" level:"2" older:"drop"`
}

// SentEpoch returns the epoch of a request.
func (e *NodeEpoch) SentEpoch() uint64 { return e.Epoch }

// StampEpoch sets the epoch of a request.
func (e *NodeEpoch) StampEpoch(epoch uint64) { e.Epoch = epoch }

// EpochRequest is a request of a node that has its epoch. The servers reject one of an earlier epoch, with
// CauseStaleEpoch: the node was lost since, and others may have its work.
type EpochRequest interface {
	Credentials() (nodeID, secretID string)
	SentEpoch() uint64
	StampEpoch(epoch uint64)
}

// staleRetry is the time after which a node that has sent an earlier epoch tries again. It learns the present
// one meanwhile.
const staleRetry = 250 * time.Millisecond

// CheckEpoch returns an error with CauseStaleEpoch if a request is of an earlier epoch than the node.
func (n *Node) CheckEpoch(r EpochRequest) error {
	sent := r.SentEpoch()
	if sent == 0 || sent >= n.Epoch {
		return nil
	}
	return Rejectedf(CauseStaleEpoch, staleRetry,
		"node %s was lost after it sent this (epoch %d, now %d): nothing of it counts", n.ID, sent, n.Epoch)
}
