package simulate

import "berth/test/guarantees"

// property is a guarantee that the simulation checks.
type property = guarantees.Property

const (
	exclusiveWriter   = guarantees.ExclusiveWriter
	claimedWriter     = guarantees.ClaimedWriter
	leaseBeforeLoss   = guarantees.LeaseBeforeLoss
	provedRelease     = guarantees.ProvedRelease
	proofOfOneLoss    = guarantees.ProofOfOneLoss
	wantedFence       = guarantees.WantedFence
	oneFence          = guarantees.OneFence
	oneAttachment     = guarantees.OneAttachment
	detachedUnmounted = guarantees.DetachedUnmounted
	growingEpoch      = guarantees.GrowingEpoch
	consistentState   = guarantees.ConsistentState
	equalReplay       = guarantees.EqualReplay
	nothingStuck      = guarantees.NothingStuck
	pacedReplacement  = guarantees.PacedReplacement
)
