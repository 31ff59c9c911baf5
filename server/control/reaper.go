package control

import (
	"context"
	"time"

	"berth/endpoints"
	"berth/fsm"
	"berth/state"
	"berth/structs"
)

// reaperLoop releases the claims of allocations that have ended and whose node has not done so
// itself, after the node said that it let go. For a node that is down it does nothing: why is said where the
// claim is read.
type reaperLoop struct{ Deps }

func (r reaperLoop) run(ctx context.Context) {
	runner{
		name: "reaper", logger: r.Logger, store: r.Store, now: r.Now, retry: r.Config.Retry,
		parallel: r.Config.CallsPerNode, snapshot: r.Store.Watching, items: r.items,
		every: r.Config.ReapInterval, gap: r.Config.ReapInterval / 5,
	}.run(ctx)
}

func (r reaperLoop) items(tx *state.Read) []item {
	var items []item
	for c := range state.EndedClaims(tx) {
		due, ok := nextReap(c, state.Node(tx, c.NodeID), r.Config.ReapGrace)
		if !ok {
			continue
		}
		items = append(items, item{
			key: "release volume " + c.Namespace + "/" + c.VolumeID + " alloc " + c.AllocID, version: c.ModifyIndex,
			serial: c.Namespace + "/" + c.VolumeID + " " + c.NodeID, group: c.NodeID, due: due,
			act: func(ctx context.Context) error { return r.release(ctx, c) },
		})
	}
	return items
}

// nextReap says from when on the claim of an allocation that has ended is to be released without its node's
// doing, if at all.
func nextReap(c *structs.CSIClaim, node *structs.Node, grace time.Duration) (time.Time, bool) {
	if node == nil || node.Status != structs.NodeReady {
		return time.Time{}, false // nobody can say that it let go
	}
	return time.Unix(0, c.EndTime).Add(grace), true
}

// release asks first and records after: should this server die between, the next leader's asks again, and
// the node answers the same.
func (r reaperLoop) release(ctx context.Context, c *structs.CSIClaim) error {
	if err := endpoints.DetachFromNode(ctx, r.Nodes, r.Config.CallTimeout, c.Key(), c.NodeID); err != nil {
		return err
	}
	_, err := fsm.Propose(ctx, r.Proposer, fsm.VolumeUnpublish, &structs.CSIVolumeUnpublishRequest{
		Claims: []structs.CSIClaimKey{c.Key()}, NodeID: c.NodeID, WriteOptions: r.stamp(c.Namespace),
	})
	return err
}
