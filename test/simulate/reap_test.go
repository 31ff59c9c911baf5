package simulate

import (
	"time"

	"berth/fsm"
	"berth/server/nodeconn"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
)

// reapGrace is the time for which a node may release the claims of an ended allocation by itself.
const reapGrace = 10 * time.Second

// reap releases the claims of ended allocations whose node is reachable and has not released them. A
// request of a node for a claim may arrive after its release, and nobody else knows of that claim.
func (l *leader) reap(tx *state.ReadTx) {
	for id := range csi.NodesWithEndedClaims(tx) {
		if !nodeconn.Reachable(state.Node(tx, id)) {
			continue
		}
		for c := range csi.EndedClaimsOfNode(tx, id) {
			if !l.clocks.cluster.After(c.EndTime, reapGrace).After(time.Now()) {
				l.release(c)
			}
		}
	}
}

// release asks the node to unmount the volume, and then records the release.
func (l *leader) release(c *structs.CSIClaim) {
	key := "claim " + c.VolumeID + " " + c.AllocID
	if l.calls[key] || l.pauses[key] > l.w.now {
		return
	}
	l.calls[key] = true
	n := l.w.node(c.NodeID)
	l.w.after(l.w.upTo(500*time.Millisecond), func() {
		released := l.ctx.Err() == nil && n.answers() && n.hasUnmounted(c.AllocID)
		lost := !l.w.quiet && l.w.chance(20)
		l.w.after(l.w.upTo(200*time.Millisecond), func() {
			delete(l.calls, key)
			l.pauses[key] = l.w.now + 5*time.Second
			if !released || lost || l.ctx.Err() != nil {
				return
			}
			l.w.note("the leader releases the claim of %s on %s", structs.ShortID(c.AllocID), n.id)
			_ = propose(l.w, fsm.VolumeUnpublish, &structs.CSIVolumeUnpublishRequest{
				NodeID:       n.id,
				Claims:       []structs.CSIClaimKey{c.Key()},
				WriteOptions: l.w.stamp(),
			})
		})
	})
}

// hasUnmounted reports whether nothing of an allocation is left on the machine. An allocation that has
// not ended there keeps its volume.
func (n *node) hasUnmounted(alloc string) bool {
	if n.holder != nil {
		return true // a copy has mounted nothing
	}
	r := n.runs[alloc]
	return r == nil || r.stage >= leaving
}
