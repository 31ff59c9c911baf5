package control

import (
	"context"
	"iter"
	"slices"
	"time"

	"berth/fsm"
	"berth/server/control/workqueue"
	"berth/server/nodeconn"
	"berth/state"
	"berth/state/csi"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/nodecalls"
)

// reaperLoop releases the claims of ended allocations whose node has not released them itself. It calls the
// node first. For a node that is down it does nothing; the claim shows the reason. It makes a call for each
// claim, a few at a time, so that a slow volume delays no other.
type reaperLoop struct{ Deps }

const (
	// reapGrace is the time for which a node may release an ended allocation's claims by itself.
	reapGrace = 10 * time.Second
	// callsPerNode is the number of detach calls to one node in flight at once.
	callsPerNode = 8
)

func (r reaperLoop) runner() workqueue.Runner {
	return workqueue.Runner{
		Name:     "reaper",
		Logger:   r.Logger,
		Store:    r.Store,
		Retry:    r.Config.Retry,
		Parallel: workqueue.Always(callsPerNode),
		Topics:   []state.Topic{schema.EndedClaimRows, schema.NodeRows},
		All:      reapableKeys,
		Read:     r.read,
		Keys:     reapKeys,
	}
}

// reapableKeys yields the claims to release on reachable nodes. It skips other nodes at once, with any number
// of claims.
func reapableKeys(tx *state.ReadTx) iter.Seq[workqueue.Key] {
	return func(yield func(workqueue.Key) bool) {
		for node := range csi.NodesWithEndedClaims(tx) {
			for k := range reapableKeysOf(tx, node) {
				if !yield(k) {
					return
				}
			}
		}
	}
}

func reapableKeysOf(tx *state.ReadTx, node string) iter.Seq[workqueue.Key] {
	return func(yield func(workqueue.Key) bool) {
		reachable := false // read with the first claim: most nodes have none
		for c := range csi.EndedClaimsOfNode(tx, node) {
			reachable = reachable ||
				nodeconn.Reachable(state.Node(tx, node))
			key := rowKey(schema.EndedClaimRows, c.Namespace, c.VolumeID, c.AllocID)
			if !reachable || !yield(key) {
				return
			}
		}
	}
}

// reapKeys yields the changed claim, or the claims of the changed node, which may have come back.
func reapKeys(tx *state.ReadTx, c state.Change) iter.Seq[workqueue.Key] {
	if c.Topic == schema.NodeRows {
		return reapableKeysOf(tx, c.Key[0])
	}
	return slices.Values([]workqueue.Key{c})
}

func (r reaperLoop) read(tx *state.ReadTx, k workqueue.Key) workqueue.Step {
	c := csi.Claim(tx, k.Key[0], k.Key[1], k.Key[2])
	if c == nil || c.EndTime == 0 ||
		!nodeconn.Reachable(state.Node(tx, c.NodeID)) {
		return workqueue.Step{}
	}

	return workqueue.Step{
		Op:      "release",
		Version: c.ModifyIndex,
		Group:   c.NodeID,
		Serial:  c.Namespace + "/" + c.VolumeID,
		Due:     r.Clock.After(c.EndTime, reapGrace),
		Act: func(ctx context.Context) error {
			return r.release(ctx, c)
		},
	}
}

// release calls the node and then records the release. If this server fails in between, the next leader
// repeats the call, and the node answers the same.
func (r reaperLoop) release(ctx context.Context, c *structs.CSIClaim) error {
	d := nodeconn.Detach{
		Claim:      c.Key(),
		NodeID:     c.NodeID,
		ByOperator: isRetried(c.ReleaseError),
		Timeout:    nodeconn.NodeTimeout(r.Store.Read(), c.Namespace, c.VolumeID),
	}

	err := nodeconn.DetachFromNode(ctx, r.Nodes, callTimeout, d)
	if err != nil {
		r.reportReason(ctx, c, err)
		return err
	}

	return propose(ctx, r.Deps, fsm.VolumeUnpublish, &structs.CSIVolumeUnpublishRequest{
		Claims:       []structs.CSIClaimKey{c.Key()},
		NodeID:       c.NodeID,
		WriteOptions: r.stamp(""),
	})
}

// reportInterval is the least time between two records of the same reason.
const reportInterval = time.Minute

// isRetried reports whether an operator has asked for another call since a node parked one.
func isRetried(e *structs.OperationError) bool {
	return e != nil && nodecalls.ParksRelease(e.Code) && e.RetryTime != structs.NeverTry
}

// reportReason records in the claim the reason for which a node does not release a volume.
func (r reaperLoop) reportReason(ctx context.Context, c *structs.CSIClaim, why error) {
	if ctx.Err() != nil || r.isReported(c.ReleaseError, why) {
		return
	}

	e := r.operationError(why, c.ReleaseError, "NodeUnpublishVolume")
	note := &structs.CSICallNote{
		VolumeID:     c.VolumeID,
		NodeID:       c.NodeID,
		AllocID:      c.AllocID,
		RowIndex:     c.CreateIndex,
		Err:          e,
		WriteOptions: r.stamp(c.Namespace),
	}

	err := propose(ctx, r.Deps, fsm.CallNote, note)
	if err != nil {
		r.Logger.Debug("failed to record the last error of a claim",
			"volume_id", c.VolumeID,
			"node_id", c.NodeID,
			"error", err)
	}
}

// isReported reports whether the claim has the reason already. A node does not repeat a call that its plugin
// rejected for good, so another record would count an attempt that was not made.
func (r reaperLoop) isReported(last *structs.OperationError, why error) bool {
	if last == nil || isRetried(last) ||
		last.Kind != structs.KindOf(why) ||
		last.Code != structs.CodeOf(why) {
		return false
	}
	return last.RetryTime == structs.NeverTry ||
		r.Clock.After(last.Time, reportInterval).After(time.Now())
}
