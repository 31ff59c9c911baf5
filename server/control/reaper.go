package control

import (
	"context"
	"time"

	"berth/endpoints"
	"berth/fsm"
	"berth/internal/together"
	"berth/state"
	"berth/structs"
)

// reaperLoop releases the claims of allocations that have ended and whose node has not done so
// itself, after the node said that it let go. For a node that is down it does nothing: why is said where the
// claim is read. A node is asked about each claim by itself, a few at a time, so that one volume that is slow
// to let go holds up no other; what a node says at about the same time is one log entry.
type reaperLoop struct{ Deps }

// reapsPerNode is how many claims of one node are looked after at once, those included whose release is about
// to be recorded.
const reapsPerNode = 512

func (r reaperLoop) run(ctx context.Context) {
	w := &reaper{reaperLoop: r}
	w.released.Most, w.released.Wait, w.released.Propose = entryMost, r.Config.Together, w.record
	runner{
		name: "reaper", logger: r.Logger, store: r.Store, now: r.Now, retry: r.Config.Retry,
		parallel: reapsPerNode, snapshot: r.Store.Watching, items: w.items,
		every: r.Config.ReapInterval, gap: r.Config.ReapInterval / 5,
	}.run(ctx)
}

// reaper is the loop while it runs.
type reaper struct {
	reaperLoop
	calls    lanes
	released together.Gather[string, structs.CSIClaimKey] // by node
}

func (r *reaper) items(tx *state.Read) []item {
	var items []item
	for c := range state.EndedClaims(tx) {
		due, ok := nextReap(c, state.Node(tx, c.NodeID), r.Config.ReapGrace)
		if !ok {
			continue
		}
		items = append(items, item{
			key: "release volume " + c.Namespace + "/" + c.VolumeID + " alloc " + c.AllocID, version: c.ModifyIndex,
			group: c.NodeID, due: due,
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
func (r *reaper) release(ctx context.Context, c *structs.CSIClaim) error {
	if err := r.letGo(ctx, c); err != nil {
		return err
	}
	_, err := r.released.Do(ctx, c.NodeID, c.Key())
	return err
}

// letGo asks the node, about a volume once at a time.
func (r *reaper) letGo(ctx context.Context, c *structs.CSIClaim) error {
	leave, err := r.calls.enter(ctx, "volume "+c.Namespace+"/"+c.VolumeID+" node "+c.NodeID, 1)
	if err != nil {
		return err
	}
	defer leave()
	leaveNode, err := r.calls.enter(ctx, "node "+c.NodeID, r.Config.CallsPerNode)
	if err != nil {
		return err
	}
	defer leaveNode()
	return endpoints.DetachFromNode(ctx, r.Nodes, r.Config.CallTimeout, c.Key(), c.NodeID)
}

func (r *reaper) record(ctx context.Context, node string, claims []structs.CSIClaimKey) (uint64, error) {
	return fsm.Propose(ctx, r.Proposer, fsm.VolumeUnpublish, &structs.CSIVolumeUnpublishRequest{
		Claims: claims, NodeID: node, WriteOptions: r.stamp(""),
	})
}
