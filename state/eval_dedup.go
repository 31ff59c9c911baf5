package state

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"berth/state/schema"
	"berth/state/unblock"
	"berth/structs"
)

// Changes of nodes and allocations request evaluations by the thousand. Mostly a pending evaluation will see
// the change anyway. Such a request only sets an index in the row of that evaluation, so that a plan from
// before the change does not complete it. A per-node job is evaluated on the changed node. It is evaluated on
// all nodes if many nodes change at once.

// changedMeanwhile is the description of an evaluation that is pending again because its inputs have changed
// since its plan was made.
const changedMeanwhile = "its inputs have changed meanwhile"

const (
	// manyNodes is the number of pending evaluations of one job, each for a node, from which on the next is
	// for all nodes.
	manyNodes = 64
	// keptDone is the number of ended evaluations without placements that stay for a job and a node.
	keptDone = 1
	// mostDone is the number of these evaluations that deleteDone reads.
	mostDone = 8
)

// ofOneNode reports whether an evaluation is for only one node of its job.
func ofOneNode(e *structs.Evaluation) bool {
	return e.NodeID != "" && perNode(e)
}

// perNode reports whether the job of an evaluation runs on every node.
func perNode(e *structs.Evaluation) bool {
	return (&structs.Job{Type: e.Type}).PerNode()
}

// enqueueEval puts an evaluation for a change of a node or an allocation, unless a pending one will see the
// change.
func enqueueEval(tx *WriteTx, e *structs.Evaluation, id string) {
	deleteDone(tx, e)
	c := coveringEval(tx, e)
	if c != nil {
		// The put sets ModifyIndex, by which changedSincePlan sees that a plan does not know this change.
		// Another change of this entry may have put it already.
		if c.ModifyIndex != tx.Index {
			c = c.Copy()
			c.ModifyTime = max(c.ModifyTime, e.ModifyTime)
			schema.Evals.Put(tx, c)
		}
		return
	}
	if ofOneNode(e) && forManyNodes(tx, e) {
		e.NodeID = ""
	}
	e.ID = id
	putEval(tx, e)
}

// coveringEval returns a pending evaluation that includes the scope of e, and nil if there is none.
func coveringEval(tx Reader, e *structs.Evaluation) *structs.Evaluation {
	if !perNode(e) {
		return schema.EvalsByJob.First(tx, e.Namespace, e.JobID,
			schema.OpenEval, structs.EvalPending)
	}
	return cmp.Or(
		schema.EvalsByJob.First(tx, e.Namespace, e.JobID, schema.OpenEval, structs.EvalPending, ""),
		schema.EvalsByJob.First(tx, e.Namespace, e.JobID, schema.OpenEval, structs.EvalPending, e.NodeID),
	)
}

// forManyNodes reports whether the job has manyNodes pending evaluations, so that one for all nodes is less
// work.
func forManyNodes(tx Reader, e *structs.Evaluation) bool {
	n := 0
	for range schema.EvalsByJob.Scan(tx, e.Namespace, e.JobID, schema.OpenEval, structs.EvalPending) {
		n++
		if n >= manyNodes {
			return true
		}
	}
	return false
}

// changedSincePlan reports whether a later change relies on the evaluation whose outcome is e: it happened
// after the plan for e was made.
func changedSincePlan(tx Reader, e *structs.Evaluation) bool {
	now := Eval(tx, e.ID)
	return now != nil && now.Status == structs.EvalPending &&
		e.ModifyIndex != 0 && now.ModifyIndex > e.ModifyIndex
}

// deleteDone deletes earlier evaluations of the job that the same node has caused and that have placed
// nothing. Otherwise a node that comes and goes would leave thousands. The newest one stays for users.
func deleteDone(tx *WriteTx, e *structs.Evaluation) {
	if e.NodeID == "" {
		return
	}

	var done []*structs.Evaluation
	rows := schema.EvalsByJob.Scan(tx, e.Namespace, e.JobID, schema.DoneEval, e.NodeID, schema.MayGoEval)
	for d := range rows {
		done = append(done, d)

		// The bound is for the cost of the entry. A later change deletes what is left.
		if len(done) >= mostDone {
			break
		}
	}

	slices.SortFunc(done, func(a, b *structs.Evaluation) int {
		return cmp.Compare(b.ModifyIndex, a.ModifyIndex)
	})

	for _, d := range done[min(len(done), keptDone):] {
		schema.Evals.Delete(tx, d)
	}
}

// joinBlocked merges the unblock keys of a job for one node with its unblock keys for other nodes.
func joinBlocked(tx Reader, b *structs.Evaluation) {
	other := BlockedEval(tx, b.Namespace, b.JobID)

	// Evaluations of one shape fit or fail together, and the needs on other nodes may differ.
	b.Shape = ""
	if other == nil {
		return
	}

	keys := slices.Concat(b.BlockedOn, other.BlockedOn)
	slices.Sort(keys)
	b.BlockedOn = boundNodes(slices.Compact(keys))

	// putEval cancels the other one. If an unblock has made that due, b has to become pending in its place.
	if unblock.Since(tx, other) != "" {
		b.SnapshotIndex = min(b.SnapshotIndex, other.SnapshotIndex)
	}

	failed := map[string]*structs.AllocMetric{}
	maps.Copy(failed, other.FailedTGAllocs)
	maps.Copy(failed, b.FailedTGAllocs)
	queued := map[string]int{}
	maps.Copy(queued, other.QueuedAllocations)
	for g, n := range b.QueuedAllocations {
		queued[g] = max(n, queued[g])
	}

	b.FailedTGAllocs = failed
	b.QueuedAllocations = queued
}

// boundNodes replaces the keys of nodes, if they are many, by the key of any capacity.
func boundNodes(keys []string) []string {
	ofNode := func(k string) bool {
		return strings.HasPrefix(k, structs.WakeNode(""))
	}
	others := slices.DeleteFunc(slices.Clone(keys), ofNode)
	if len(keys)-len(others) <= structs.ManyNodes &&
		!slices.Contains(others, structs.WakeCapacity) {
		return keys
	}
	others = append(others, structs.WakeCapacity)
	slices.Sort(others)
	return slices.Compact(others)
}
