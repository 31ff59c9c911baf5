package fence

import (
	"context"
	"maps"
	"slices"
	"time"

	"berth/fsm"
	"berth/internal/backoff"
	"berth/server/control/loop"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/cluster"
)

// LeaseLoop releases the guarded claims of lost nodes while this server leads, once a node has surely ended
// their tasks. It is a loop of its own, because a run of a fence agent may take minutes.
type LeaseLoop struct {
	loop.Common
	Now func() time.Time // the wall clock: of the entries

	losses map[string]loss // by node
}

// loss is the loss of a node as this leadership sees it.
type loss struct {
	epoch uint64
	seen  time.Time // the first look at which the node was down
}

// due returns the time at which the tasks of the guarded claims have surely ended. A node is marked down
// when its lease has ended. The grace after it, and the time since an earlier leader marked it, do not
// count: another leader may have granted the lease, with another grace.
func (l loss) due() time.Time { return l.seen.Add(cluster.GuardEndTime) }

// leaseInterval is the time between two steps. A claim waits for up to two of them besides GuardEndTime.
const leaseInterval = interval / 5

// Run releases claims until ctx ends.
func (l *LeaseLoop) Run(ctx context.Context) {
	for {
		l.Step(ctx)
		if !backoff.Sleep(ctx, leaseInterval) {
			return
		}
	}
}

// Step releases the claims that are due now. It is to be called each second at least.
func (l *LeaseLoop) Step(ctx context.Context) {
	tx := l.Store.Read()
	l.losses = seeLosses(tx, l.losses, time.Now())
	for _, id := range slices.Sorted(maps.Keys(l.losses)) {
		if !time.Now().Before(l.losses[id].due()) {
			l.release(ctx, tx, state.Node(tx, id))
		}
	}
}

// seeLosses returns the losses of now. known has the losses of the last look.
func seeLosses(tx *state.ReadTx, known map[string]loss, now time.Time) map[string]loss {
	losses := map[string]loss{}
	for n := range state.LostNodes(tx) {
		lost, ok := known[n.ID]

		// The node was back meanwhile. What it does since then counts from this loss on.
		if !ok || lost.epoch != n.Epoch {
			lost = loss{n.Epoch, now}
		}

		losses[n.ID] = lost
	}

	return losses
}

// release proposes the proof for a node that has claims to release. The entry checks the loss again.
func (l *LeaseLoop) release(ctx context.Context, tx *state.ReadTx, n *structs.Node) {
	claims := csi.EndsWithLease(tx, n)
	if len(claims) == 0 {
		return
	}

	l.Logger.Warn("the lease of a lost node has ended, and its guarded claims are released",
		"node_id", n.ID, "claims", len(claims))
	_, err := fsm.Propose(ctx, l.Proposer, fsm.LeaseProof, &cluster.LeaseProofRequest{
		NodeID: n.ID,
		Epoch:  n.Epoch,
		Now:    l.Now().UnixNano(),
	})
	switch {
	case err == nil:
		countEnd(cluster.FenceByLease)
	case ctx.Err() == nil:
		l.Logger.Warn("failed to release the claims of a lost node, retrying", "node_id", n.ID, "error", err)
	}
}
