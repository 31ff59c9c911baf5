package fence

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/fsm"
	"berth/internal/backoff"
	"berth/state"
	"berth/structs"
)

// LeaseLoop releases the guarded claims of lost nodes while this server leads, once a node has surely ended
// their tasks. It is a loop of its own, because a run of a fence agent may take minutes.
type LeaseLoop struct {
	Store    *state.Store
	Proposer fsm.Proposer
	Logger   hclog.Logger
	Grace    time.Duration // of the leases that this leadership grants

	losses map[string]loss // by node; nil: none has been looked for
	bound  time.Duration   // the longest that was seen in this leadership
}

// loss is the loss of a node as this leadership sees it.
type loss struct {
	epoch     uint64
	seen      time.Time // the first look at which the node was down
	inherited bool      // an earlier leadership marked the node down, with a grace that is not known
}

// due returns the time at which the tasks of the guarded claims have surely ended. A node is marked down when
// its lease and the grace have ended, so only the rest of GuardEndTime is left. For a loss of an earlier
// leadership the bound of all leases begins with this one, as it does for nodes that are alive.
func (l loss) due(grace, bound time.Duration) time.Time {
	if l.inherited {
		return l.seen.Add(bound + structs.GuardEndTime)
	}
	return l.seen.Add(max(0, structs.GuardEndTime-grace))
}

// Run releases claims until ctx ends.
func (l *LeaseLoop) Run(ctx context.Context) {
	for {
		l.Step(ctx)
		if !backoff.Sleep(ctx, interval) {
			return
		}
	}
}

// Step releases the claims that are due now. It is to be called about once a second.
func (l *LeaseLoop) Step(ctx context.Context) {
	tx := l.Store.Read()
	l.bound = max(l.bound, state.LeaseBound(tx))
	l.losses = seeLosses(tx, l.losses, time.Now())
	for _, id := range slices.Sorted(maps.Keys(l.losses)) {
		if !time.Now().Before(l.losses[id].due(l.Grace, l.bound)) {
			l.release(ctx, tx, state.Node(tx, id))
		}
	}
}

// seeLosses returns the losses of now. known has those of the last look, nil at the first one.
func seeLosses(tx *state.ReadTx, known map[string]loss, now time.Time) map[string]loss {
	losses := map[string]loss{}
	for n := range state.LostNodes(tx) {
		lost, ok := known[n.ID]
		if !ok || lost.epoch != n.Epoch {
			lost = loss{
				epoch:     n.Epoch,
				seen:      now,
				inherited: known == nil,
			}
		}
		losses[n.ID] = lost
	}
	return losses
}

// release proposes the proof for a node that has claims to release. The entry checks the loss again.
func (l *LeaseLoop) release(ctx context.Context, tx *state.ReadTx, n *structs.Node) {
	claims := state.EndsWithLease(tx, n)
	if len(claims) == 0 {
		return
	}
	l.Logger.Warn("the lease of a lost node has ended, and its guarded claims are released",
		"node_id", n.ID, "claims", len(claims))
	_, err := fsm.Propose(ctx, l.Proposer, fsm.LeaseProof, &structs.LeaseProofRequest{
		NodeID: n.ID,
		Epoch:  n.Epoch,
		Now:    time.Now().UnixNano(),
	})
	switch {
	case err == nil:
		countEnd(structs.FenceByLease)
	case ctx.Err() == nil:
		l.Logger.Warn("failed to release the claims of a lost node, retrying", "node_id", n.ID, "error", err)
	}
}
