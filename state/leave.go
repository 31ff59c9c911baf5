package state

import (
	"time"

	"berth/state/lease"
	"berth/state/schema"
	"berth/structs"
)

// leaveMessage is the note of a drain that an agent has requested as it shut down, as `node drain -m` would
// keep it.
const leaveMessage = "the agent of the node was shut down"

// NodeLeave drains a node whose agent shuts down, or ends this drain because the agent has started again. A
// drain of an operator continues unchanged.
func NodeLeave(tx *WriteTx, p *structs.NodeLeaveRequest) error {
	old, err := lease.FindCaller(tx, p)
	if err != nil {
		return err
	}

	n := shallowCopy(old)
	switch {
	case p.DrainSpec == nil:
		endLeave(tx, n, p.Now)
	case n.DrainStrategy == nil || HasLeft(n):
		startLeave(tx, n, p)
	}

	if structs.NodeEqual(old, n, 0) {
		return nil
	}

	schema.Nodes.Put(tx, n)
	if n.Ready() && !old.Ready() {
		evaluateNode(tx, n.ID, true, p.Now)
	}

	return nil
}

// HasLeft reports whether the agent of a node has requested its last drain as it shut down, and nobody has
// decided on the node since.
func HasLeft(n *structs.Node) bool {
	return n.LastDrain != nil && n.LastDrain.RestoreOnStart != ""
}

// startLeave starts the drain of a shutdown. The agent may shut down again before the servers know of its
// start: then the eligibility is that before the first of the drains.
func startLeave(tx *WriteTx, n *structs.Node, p *structs.NodeLeaveRequest) {
	before := n.SchedulingEligibility
	if HasLeft(n) {
		before = n.LastDrain.RestoreOnStart
	}
	meta := map[string]string{"message": leaveMessage}
	setDrain(n, *p.DrainSpec, meta, time.Unix(0, p.Now).UTC())
	n.LastDrain.RestoreOnStart = before
	addEvents(tx, n, serverEvent(DrainSubsystem, "Node drained because its agent was shut down", p.Now))
}

// endLeave ends the drain of a shutdown, and restores the eligibility that the node had before it.
func endLeave(tx *WriteTx, n *structs.Node, now int64) {
	if !HasLeft(n) {
		return
	}

	before := n.LastDrain.RestoreOnStart
	if n.DrainStrategy != nil {
		endDrain(n, structs.DrainCanceled, time.Unix(0, now).UTC())
	}

	restoreOnStart(n, "")
	if before == structs.NodeEligible {
		makeEligible(n)
	}

	e := serverEvent(DrainSubsystem, "Node is back after the drain of its shutdown", now)
	e.Details = map[string]string{"eligibility": before}
	addEvents(tx, n, e)
}

// restoreOnStart changes the eligibility that the next start of the agent restores, if it restores one.
func restoreOnStart(n *structs.Node, eligibility string) {
	if HasLeft(n) {
		last := *n.LastDrain
		last.RestoreOnStart = eligibility
		n.LastDrain = &last
	}
}
