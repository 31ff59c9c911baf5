package structs

import (
	"slices"
	"time"
)

// NodeEpoch is the part of a request that has the epoch of a node (see Node.Epoch): of the node that sends
// the request, or of the one that the servers call. 0: the sender knows none, and the request passes.
type NodeEpoch struct {
	Epoch uint64 `json:",omitempty" codec:",omitempty"`
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

// agentRetry is the time after which an agent may send a request again that CheckAgent has rejected. It may
// be the right agent whose registration the servers have lost in a restore: it registers again meanwhile.
const agentRetry = 2 * time.Second

// CheckAgent returns an error with CauseSecondAgent if a request about claims is of another agent than the
// one that the row of the node knows, or of one that the servers have not accepted yet.
func (n *Node) CheckAgent(sent *AgentProof) error {
	if sent == nil {
		sent = &AgentProof{}
	}

	var other string
	switch {
	case n.BootID != "" && sent.BootID == "":
		other = "one that does not say which it is"
	case n.Machine != "" && !n.Machine.Same(sent.Machine):
		other = "one on another machine, in boot " + sent.BootID
	case n.BootID != sent.BootID:
		other = "one in boot " + sent.BootID
	case n.Mark != "" && !slices.Contains(sent.Marks, n.Mark):
		other = "one in boot " + sent.BootID + " whose disk is older, or a copy"
	default:
		return nil
	}

	return Rejectedf(CauseSecondAgent, agentRetry,
		"node %s has the agent on %s (%s, boot %s), and this request about its volumes is of %s. Nothing "+
			"was changed. If that one is right, it tries again by itself, and its registration comes first. If "+
			"the data directory was copied, give one of the two a new identity (see "+
			"docs/operations/lost-nodes.md); berth node status %s lists both",
		n.ID, n.Name, n.HTTPAddr, n.BootID, other, n.ID)
}
