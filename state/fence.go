package state

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	"berth/internal/mvcc"
	"berth/state/csi"
	"berth/state/lease"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/cluster"
)

// This file has the runs that prove that a lost node can no longer write, and the release of its volumes
// after a proof.

// FenceRuns returns the runs of a node, the oldest first.
func FenceRuns(tx Reader, node string) []*cluster.FenceRun {
	return slices.Collect(schema.FenceRuns.Scan(tx, node))
}

// FenceOrders yields the orders of operators to fence a node.
func FenceOrders(tx Reader) iter.Seq[*cluster.FenceOrder] {
	return schema.FenceOrders.Scan(tx)
}

// FenceOrder returns the order to fence a node, nil if there is none.
func FenceOrder(tx Reader, node string) *cluster.FenceOrder {
	return schema.FenceOrders.Get(tx, node)
}

// FenceOrdered records the order of an operator to fence a node. An order that is there already stays.
func FenceOrdered(tx *WriteTx, p *cluster.NodeFenceRequest) error {
	n, err := findLost(tx, p.NodeID, p.Epoch)
	if err != nil {
		return err
	}
	if p.By == "" {
		return structs.Invalidf("By is empty; expected the name of the operator")
	}
	if FenceOrder(tx, n.ID) != nil {
		return nil
	}
	schema.FenceOrders.Put(tx, &cluster.FenceOrder{
		NodeID: n.ID,
		Epoch:  n.Epoch,
		After:  lastFence(tx, n.ID),
		By:     p.By,
		Why:    p.Why,
		Time:   p.Now,
	})
	return nil
}

// findLost returns a node that is down. With an epoch other than 0, the loss of that epoch is meant.
func findLost(tx Reader, id string, epoch uint64) (*structs.Node, error) {
	n, err := lease.FindNode(tx, id, "")
	switch {
	case err != nil:
		return nil, err
	case n.Status != structs.NodeDown:
		return nil, structs.Preconditionf("node %s is %s: its lease and grace have not ended",
			csi.NodeName(tx, id), n.Status)
	case epoch != 0 && epoch != n.Epoch:
		return nil, structs.Conflictf("node %s has been back since you looked, and is down again: look again",
			csi.NodeName(tx, id))
	}
	return n, nil
}

// lastFence returns the number of the last run of a node, 0 if it has none.
func lastFence(tx Reader, node string) (last uint64) {
	for r := range schema.FenceRuns.Scan(tx, node) {
		last = r.Number
	}
	return last
}

// FenceBegin records that a run begins. The order of an operator, if there is one, is the reason. Without one
// it rejects a node that may work: one that has not reported its volumes since a restore may have come back
// after the snapshot, and one for which nobody waits any more has released its volumes since the decision.
func FenceBegin(tx *WriteTx, p *cluster.FenceBeginRequest) error {
	n, err := findLost(tx, p.NodeID, 0)
	if err != nil {
		return err
	}

	if p.Attempt < 1 {
		return structs.Invalidf("Attempt is %d; expected the number of an attempt, from 1", p.Attempt)
	}

	order := FenceOrder(tx, n.ID)
	err = mayBegin(tx, n, order, p)
	if err != nil {
		return err
	}

	run := &cluster.FenceRun{
		NodeID:  n.ID,
		Number:  p.Number,
		Epoch:   n.Epoch,
		Attempt: p.Attempt,
		Kind:    cluster.FenceByAgent,
		Device:  p.Device,
		Scope:   p.Scope,
		State:   cluster.FenceRunning,
		Begun:   p.Now,
	}

	if order != nil {
		run.By = order.By
		run.Why = order.Why
	}

	schema.FenceRuns.Put(tx, run)
	return nil
}

// mayBegin returns an error if the state has changed since the leader decided on a run for a lost node, or if
// nothing requires it. order is an operator's, nil if there is none.
func mayBegin(
	tx Reader, n *structs.Node, order *cluster.FenceOrder, p *cluster.FenceBeginRequest,
) error {
	// The number makes a repeated entry, and one of a former leader, a conflict. So a run begins once.
	if n.Epoch != p.Epoch || p.Number != lastFence(tx, n.ID)+1 {
		return structs.Conflictf("run %d of node %s does not follow: the state has changed", p.Number, n.ID)
	}

	if order == nil && n.Unaccounted {
		return structs.Preconditionf("node %s %s: only an operator has it fenced, by berth node fence %s",
			n.ID, n.WhyUnaccounted(), n.ID)
	}

	if order == nil && !IsFenceWanted(tx, n.ID) {
		return structs.Conflictf("nobody waits any more for a volume with on_node_loss fence of node %s", n.ID)
	}

	for r := range schema.FenceRuns.Scan(tx, n.ID) {
		if r.State == cluster.FenceRunning {
			return structs.Conflictf("run %d of node %s has not ended", r.Number, n.ID)
		}
	}

	return nil
}

// FenceEnd records the end of a run. A proof releases the claims that it covers. A run that has ended stays
// as it is: the entry may be repeated, and it proves nothing after the node came back, which ends its run.
func FenceEnd(tx *WriteTx, p *cluster.FenceEndRequest) error {
	run := schema.FenceRuns.Get(tx, p.NodeID, mvcc.Ordered(p.Number))
	if run == nil || run.State != cluster.FenceRunning {
		return nil
	}

	run = new(*run)
	run.Action = p.Action
	run.ExitCode = p.ExitCode
	run.Output = p.Output
	run.Reason = p.Reason
	run.NextTry = p.NextTry
	run.Ended = p.Now

	if !p.Proved {
		run.State = cluster.FenceFailed
		run.Cause = p.Cause
	} else {
		run.State = cluster.FenceProved
		err := releaseProved(tx, run, p)
		if err != nil {
			return err
		}
	}

	// A run from before the order may have failed for a reason that is gone, so it does not end the order.
	order := FenceOrder(tx, run.NodeID)
	if order != nil && p.NextTry != 0 && run.Number > order.After {
		schema.FenceOrders.Delete(tx, order)
	}

	endRun(tx, run)
	if run.State == cluster.FenceProved && run.Scope == cluster.FencePower {
		evaluateNode(tx, run.NodeID, false, p.Now) // none of its allocations comes back
	}

	return nil
}

// endRun stores a run that has ended, and deletes the oldest if there are too many.
func endRun(tx *WriteTx, run *cluster.FenceRun) {
	schema.FenceRuns.Put(tx, run)
	runs := slices.DeleteFunc(FenceRuns(tx, run.NodeID), func(r *cluster.FenceRun) bool {
		return r.State == cluster.FenceRunning
	})
	for _, r := range runs[:max(0, len(runs)-cluster.FenceRuns)] {
		schema.FenceRuns.Delete(tx, r)
	}
}

// releaseProved releases the claims of a node that the proof of a run covers, whatever the policies of their
// volumes are: a policy says for which volumes the servers begin a run, and a proof is one for all.
func releaseProved(tx *WriteTx, run *cluster.FenceRun, p *cluster.FenceEndRequest) error {
	covered := map[structs.CSIClaimKey]bool{}
	for _, k := range p.Covered {
		covered[k] = true
	}
	var keys []structs.CSIClaimKey
	for c := range csi.ClaimsByNode(tx, run.NodeID) {
		// A machine that is off writes to no volume. Another proof is about the claims that it names.
		about := run.Scope == cluster.FencePower || covered[c.Key()]
		if about && c.State == structs.ClaimGranted {
			keys = append(keys, c.Key())
		}
	}
	return releaseLost(tx, run, keys, structs.CSIVolumeForceRequest{
		What:         fmt.Sprintf("claims released; fence device %q proved that the node cannot write", run.Device),
		By:           cmp.Or(run.By, "the servers"),
		Reason:       cmp.Or(run.Why, "a volume with on_node_loss fence was waited for"),
		WriteOptions: structs.WriteOptions{Now: p.Now},
	})
}

// ConfirmLost records the word of an operator that the machine of a node is off, and releases all claims of
// the node.
func ConfirmLost(tx *WriteTx, p *cluster.NodeFenceRequest) error {
	n, err := findLost(tx, p.NodeID, p.Epoch)
	if err != nil {
		return err
	}

	if p.By == "" || p.Why == "" {
		return structs.Invalidf("By and Why are needed: the name of the operator and the reason")
	}

	run := &cluster.FenceRun{
		NodeID: n.ID,
		Number: lastFence(tx, n.ID) + 1,
		Epoch:  n.Epoch,
		Kind:   cluster.FenceByWord,
		Scope:  cluster.FencePower,
		By:     p.By,
		Why:    p.Why,
		State:  cluster.FenceProved,
		Begun:  p.Now,
		Ended:  p.Now,
	}

	var keys []structs.CSIClaimKey
	for c := range csi.ClaimsByNode(tx, n.ID) {
		if c.State == structs.ClaimGranted {
			keys = append(keys, c.Key())
		}
	}

	err = releaseLost(tx, run, keys, structs.CSIVolumeForceRequest{
		What:         "claims released; an operator confirmed that the machine is off",
		By:           p.By,
		Reason:       p.Why,
		WriteOptions: p.WriteOptions,
	})
	if err != nil {
		return err
	}

	dropFenceOrder(tx, n.ID)
	endRun(tx, run)
	evaluateNode(tx, n.ID, false, p.Now) // none of its allocations comes back
	return nil
}

// releaseLost releases claims of a node that is down, volume by volume, and records in each volume and in the
// run that they are released. decision has the texts of the record.
func releaseLost(
	tx *WriteTx,
	run *cluster.FenceRun,
	keys []structs.CSIClaimKey,
	decision structs.CSIVolumeForceRequest,
) error {
	run.Released = len(keys)
	decision.NodeID = run.NodeID

	// A map has no order, and every server has to change the rows in the same one.
	byVolume := map[csi.VolumeKey][]structs.CSIClaimKey{}
	var order []csi.VolumeKey
	for _, k := range keys {
		v := csi.VolumeKey{Namespace: k.Namespace, VolumeID: k.VolumeID}
		if byVolume[v] == nil {
			order = append(order, v)
		}

		byVolume[v] = append(byVolume[v], k)
	}

	for _, k := range order {
		forced := decision
		forced.Namespace = k.Namespace
		forced.VolumeID = k.VolumeID
		forced.Claims = byVolume[k]
		err := forceRelease(tx, &forced)
		if err != nil {
			return err
		}
	}

	n := shallowCopy(Node(tx, run.NodeID))
	text := fmt.Sprintf("%s, by %s: %s", decision.What, decision.By, decision.Reason)
	event := serverEvent("Storage", text, decision.Now)
	event.Details = map[string]string{"volumes": fmt.Sprint(len(order)), "claims": fmt.Sprint(len(keys))}
	addEvents(tx, n, event)
	schema.Nodes.Put(tx, n)
	return nil
}

// nodeCameBack ends all that follows from the loss of a node: a run that has begun proves nothing.
func nodeCameBack(tx *WriteTx, node string, now int64) {
	dropFenceOrder(tx, node)
	for _, r := range FenceRuns(tx, node) {
		if r.State == cluster.FenceRunning {
			r = new(*r)
			r.Ended = now
			r.State = cluster.FenceVoid
			r.Reason = "the node came back after the run had begun"
			endRun(tx, r)
		}
	}
}

// dropFenceOrder deletes the order to fence a node, if there is one.
func dropFenceOrder(tx *WriteTx, node string) {
	order := FenceOrder(tx, node)
	if order != nil {
		schema.FenceOrders.Delete(tx, order)
	}
}

// deleteFences deletes the runs, the order and the pins of a node that is deleted. Pins of its name stay.
func deleteFences(tx *WriteTx, node string) {
	for _, r := range FenceRuns(tx, node) {
		schema.FenceRuns.Delete(tx, r)
	}
	deleteFencePins(tx, node)
	dropFenceOrder(tx, node)
}

// LostNodes yields the nodes that are down, also nodes that have not reported their volumes since a restore.
func LostNodes(tx Reader) iter.Seq[*structs.Node] {
	return func(yield func(*structs.Node) bool) {
		for n := range schema.NodesByDown.Scan(tx) {
			if !yield(n) {
				return
			}
		}
		for n := range schema.UnaccountedNodes.Scan(tx) {
			if n.Lost() && !yield(n) {
				return
			}
		}
	}
}

// LostClaims describes the granted claims of a node.
func LostClaims(tx Reader, node string) (lost []*cluster.LostClaim) {
	for c := range csi.ClaimsByNode(tx, node) {
		v := csi.Volume(tx, c.Namespace, c.VolumeID)
		if c.State != structs.ClaimGranted || v == nil {
			continue
		}

		l := &cluster.LostClaim{
			CSIClaimKey: c.Key(),
			PluginID:    c.PluginID,
			JobID:       c.JobID,
			TaskGroup:   c.TaskGroup,
			OnNodeLoss:  csi.LossPolicy(tx, v),
			Guarded:     c.Guarded,
			Waited:      IsWaitedFor(tx, v),
		}

		a := Alloc(tx, c.AllocID)
		if a != nil {
			l.Status = a.ClientStatus
		}

		lost = append(lost, l)
	}

	return lost
}

// IsFenceWanted reports whether somebody waits for a volume of a node for which the servers fence it.
func IsFenceWanted(tx Reader, node string) bool {
	return slices.ContainsFunc(LostClaims(tx, node), (*cluster.LostClaim).WantsFence)
}

// IsWaitedFor reports whether a claim waits for a volume, or an evaluation is blocked on it.
func IsWaitedFor(tx Reader, v *structs.CSIVolume) bool {
	return len(csi.ClassesIn(tx, v, structs.ClaimWaiting)) > 0 ||
		schema.EvalsByBlocked.Has(tx, structs.WakeVolume(v.Namespace, v.ID))
}

// FenceBrake returns the reason for which the servers fence no node by themselves, nil if there is none: more
// than a third of the nodes, and at least 3, were lost within cluster.FenceBrakeWindow, and are still down.
// A node that an operator has fenced, or whose loss one has confirmed, no longer counts.
func FenceBrake(tx Reader) *cluster.FenceBrake {
	var lost []int64 // when each was lost
	up := 0
	for n := range Nodes(tx) {
		switch {
		case n.Status != structs.NodeDown:
			up++
		case !isHandled(tx, n):
			lost = append(lost, n.StatusUpdatedAt)
		}
	}

	slices.Sort(lost)
	first := 0
	var brake *cluster.FenceBrake

	// Each loss is the end of a window, and first is the earliest loss in it. The fullest window decides.
	// Nodes that were lost outside it are neither lost together nor up.
	for i, at := range lost {
		for at-lost[first] > cluster.FenceBrakeWindow {
			first++
		}

		together := i - first + 1
		of := up + together
		if together >= 3 && 3*together > of && (brake == nil || together > brake.Lost) {
			brake = &cluster.FenceBrake{
				Lost:  together,
				Of:    of,
				Since: lost[first],
			}
		}
	}

	return brake
}

// IsProvedOff reports whether there is a proof that a node that is down was switched off after its loss. A
// run of its epoch has begun after that: see FenceBegin.
func IsProvedOff(tx Reader, n *structs.Node) bool {
	for r := range schema.FenceRuns.Scan(tx, n.ID) {
		if r.Epoch == n.Epoch && r.State == cluster.FenceProved && r.Scope == cluster.FencePower {
			return true
		}
	}
	return false
}

// isHandled reports whether an operator has a proof that a node that is down cannot write.
func isHandled(tx Reader, n *structs.Node) bool {
	for r := range schema.FenceRuns.Scan(tx, n.ID) {
		if r.Epoch == n.Epoch && r.State == cluster.FenceProved && r.Ordered() {
			return true
		}
	}
	return false
}
