package control

import (
	"context"
	"iter"
	"time"

	"berth/fsm"
	"berth/internal/keylock"
	"berth/server/control/workqueue"
	"berth/server/nodeconn"
	"berth/state"
	"berth/structs"
)

// reaperLoop releases the claims of allocations that have ended and whose node has not released them itself,
// after the node said that it let go. For a node that is down it does nothing; a claim that is read says why. It
// asks a node about each claim by itself, a few at a time, so that a volume that is slow to let go holds up no
// other.
type reaperLoop struct{ Deps }

// reapsPerNode bounds the claims of one node that are released at once, including those that wait for a call.
const reapsPerNode = 512

func (r reaperLoop) run(ctx context.Context) { r.runner().Run(ctx) }

func (r reaperLoop) runner() workqueue.Runner[reapKey] {
	w := &reaper{reaperLoop: r, nodes: keylock.Map{Width: r.Config.CallsPerNode}}
	return workqueue.Runner[reapKey]{
		Name:     "reaper",
		Logger:   r.Logger,
		Store:    r.Store,
		Now:      r.Now,
		Retry:    r.Config.Retry,
		Parallel: reapsPerNode,
		Topics:   []state.Topic{state.EndedClaimRows, state.NodeRows},
		All:      reapable,
		Read:     w.read,
		Keys:     reapKeys,
	}
}

// reapKey names a claim.
type reapKey structs.CSIClaimKey

func (k reapKey) String() string {
	return "volume " + k.Namespace + "/" + k.VolumeID + " alloc " + k.AllocID
}

// reaper is the loop while it runs.
type reaper struct {
	reaperLoop
	volumes keylock.Map // calls about one volume of one node
	nodes   keylock.Map // calls to one node
}

// reapable yields the claims to release of nodes that can be asked. Those of other nodes it passes over,
// however many they are.
func reapable(tx *state.ReadTx) iter.Seq[reapKey] {
	return func(yield func(reapKey) bool) {
		for node := range state.NodesWithEndedClaims(tx) {
			for k := range reapableOf(tx, node) {
				if !yield(k) {
					return
				}
			}
		}
	}
}

func reapableOf(tx *state.ReadTx, node string) iter.Seq[reapKey] {
	return func(yield func(reapKey) bool) {
		able := false // looked up with the first: most nodes have none
		for c := range state.EndedClaimsOfNode(tx, node) {
			able = able || canLetGo(state.Node(tx, node))
			if !able || !yield(reapKey(c.Key())) {
				return
			}
		}
	}
}

// reapKeys yields the claim that has changed, or those of the node that has: it may have come back.
func reapKeys(tx *state.ReadTx, c state.Change) iter.Seq[reapKey] {
	if c.Topic == state.NodeRows {
		return reapableOf(tx, c.Key[0])
	}
	return func(yield func(reapKey) bool) {
		yield(reapKey{Namespace: c.Key[0], VolumeID: c.Key[1], AllocID: c.Key[2]})
	}
}

func (r *reaper) read(tx *state.ReadTx, k reapKey) workqueue.Step {
	c := state.Claim(tx, k.Namespace, k.VolumeID, k.AllocID)
	if c == nil || c.EndTime == 0 {
		return workqueue.Step{}
	}
	due, ok := nextReap(c, state.Node(tx, c.NodeID), r.Config.ReapGrace)
	if !ok {
		return workqueue.Step{}
	}
	return workqueue.Step{Op: "release", Version: c.ModifyIndex, Group: c.NodeID, Due: due,
		Act: func(ctx context.Context) error { return r.release(ctx, c) }}
}

// nextReap says from when on the claim of an allocation that has ended is to be released without its node's
// doing, if at all.
func nextReap(c *structs.CSIClaim, node *structs.Node, grace time.Duration) (time.Time, bool) {
	if !canLetGo(node) {
		return time.Time{}, false
	}
	return time.Unix(0, c.EndTime).Add(grace), true
}

// canLetGo reports whether a node can be asked to. While it cannot, nobody can say that it has.
func canLetGo(node *structs.Node) bool { return node != nil && node.Status == structs.NodeReady }

// release asks first and records after: should this server die between, the next leader's asks again, and
// the node answers the same.
func (r *reaper) release(ctx context.Context, c *structs.CSIClaim) error {
	if err := r.letGo(ctx, c); err != nil {
		r.tell(ctx, c, err)
		return err
	}
	_, err := fsm.Propose(ctx, r.Proposer, fsm.VolumeUnpublish, &structs.CSIVolumeUnpublishRequest{
		Claims: []structs.CSIClaimKey{c.Key()}, NodeID: c.NodeID, WriteOptions: r.stamp(""),
	})
	return err
}

// tellEvery is how often at most the same reason is recorded again.
const tellEvery = time.Minute

// notRepeated are the plugin's answers after which a node does not make the same call again by itself,
// however often it is asked to let go. Another process of the plugin may answer it.
var notRepeated = map[string]bool{"InvalidArgument": true, "Unimplemented": true}

// tell records why a node does not let go, for people to read.
func (r *reaper) tell(ctx context.Context, c *structs.CSIClaim, why error) {
	if ctx.Err() != nil || r.told(c.ReleaseError, why) {
		return
	}
	e := r.failure(why, c.ReleaseError)
	if notRepeated[e.Code] {
		e.RetryTime = structs.NeverTry
	}
	note := &structs.CSICallNote{
		VolumeID: c.VolumeID, NodeID: c.NodeID, AllocID: c.AllocID,
		RowIndex: c.CreateIndex, Err: e, WriteOptions: r.stamp(c.Namespace),
	}
	_, err := fsm.Propose(ctx, r.Proposer, fsm.CallNote, note)
	if err != nil {
		r.Logger.Debug("why a node does not let go could not be recorded", "volume", c.VolumeID,
			"node", c.NodeID, "error", err)
	}
}

// told reports whether the claim says it already. A call that is parked is not made again: each record of it
// would count as another attempt.
func (r *reaper) told(last *structs.OperationError, why error) bool {
	if last == nil || last.Kind != structs.KindOf(why) || last.Code != structs.CodeOf(why) {
		return false
	}
	return last.RetryTime == structs.NeverTry || r.Now().Before(time.Unix(0, last.Time).Add(tellEvery))
}

// letGo asks the node, about a volume once at a time.
func (r *reaper) letGo(ctx context.Context, c *structs.CSIClaim) error {
	leave, err := r.volumes.Lock(ctx, "", c.Namespace+"/"+c.VolumeID+" node "+c.NodeID)
	if err != nil {
		return err
	}
	defer leave()
	leaveNode, err := r.nodes.Lock(ctx, "", c.NodeID)
	if err != nil {
		return err
	}
	defer leaveNode()
	return nodeconn.DetachFromNode(ctx, r.Nodes, r.Config.CallTimeout,
		nodeconn.Detach{Claim: c.Key(), NodeID: c.NodeID})
}
