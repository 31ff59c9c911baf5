package structs

import "time"

// EpochRequest is a write of a node that says in which epoch it was sent (see Node.Epoch). The servers reject
// one of an earlier epoch, with CauseStaleEpoch: the node was lost since, and others may have its work. Epoch
// 0 passes: the node has none, or its agent has level 1.
type EpochRequest interface {
	Credentials() (nodeID, secretID string)
	CallerEpoch() uint64
	StampEpoch(epoch uint64)
}

// staleRetry is the time after which a node that has sent an earlier epoch tries again. It learns the present
// one meanwhile.
const staleRetry = 250 * time.Millisecond

// CheckEpoch returns an error with CauseStaleEpoch if a request of a node is of an earlier epoch than its row.
func (n *Node) CheckEpoch(r EpochRequest) error {
	sent := r.CallerEpoch()
	if sent == 0 || sent >= n.Epoch {
		return nil
	}
	return Rejectedf(CauseStaleEpoch, staleRetry,
		"node %s was lost after it sent this (epoch %d, now %d): nothing of it counts", n.ID, sent, n.Epoch)
}

// CallerEpoch implements EpochRequest.
func (r *NodeUpdateCSIRequest) CallerEpoch() uint64 { return r.Epoch }

// StampEpoch implements EpochRequest.
func (r *NodeUpdateCSIRequest) StampEpoch(epoch uint64) { r.Epoch = epoch }

// CallerEpoch implements EpochRequest.
func (r *AllocsClientUpdateRequest) CallerEpoch() uint64 { return r.Epoch }

// StampEpoch implements EpochRequest.
func (r *AllocsClientUpdateRequest) StampEpoch(epoch uint64) { r.Epoch = epoch }

// CallerEpoch implements EpochRequest.
func (r *CSIVolumeClaimRequest) CallerEpoch() uint64 { return r.Epoch }

// StampEpoch implements EpochRequest.
func (r *CSIVolumeClaimRequest) StampEpoch(epoch uint64) { r.Epoch = epoch }

// CallerEpoch implements EpochRequest.
func (r *CSIVolumeUnpublishRequest) CallerEpoch() uint64 { return r.Epoch }

// StampEpoch implements EpochRequest.
func (r *CSIVolumeUnpublishRequest) StampEpoch(epoch uint64) { r.Epoch = epoch }

// CallerEpoch implements EpochRequest.
func (r *CSINodeExpandOutcome) CallerEpoch() uint64 { return r.Epoch }

// StampEpoch implements EpochRequest.
func (r *CSINodeExpandOutcome) StampEpoch(epoch uint64) { r.Epoch = epoch }

// CallerEpoch implements EpochRequest.
func (r *NodeLeaveRequest) CallerEpoch() uint64 { return r.Epoch }

// StampEpoch implements EpochRequest.
func (r *NodeLeaveRequest) StampEpoch(epoch uint64) { r.Epoch = epoch }
