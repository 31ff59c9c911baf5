package state

import (
	"iter"
	"slices"
	"strings"

	"berth/state/schema"
	"berth/state/unblock"
	"berth/structs"
)

// Eval returns the evaluation, nil if there is none.
func Eval(tx Reader, id string) *structs.Evaluation {
	return schema.Evals.Get(tx, id)
}

// EvalsByJob yields a job's evaluations, the done ones first.
func EvalsByJob(tx Reader, ns, job string) iter.Seq[*structs.Evaluation] {
	return schema.EvalsByJob.Scan(tx, ns, job)
}

// ReadyEvals yields the pending evaluations that wait for no time: the most important first, and then the
// oldest.
func ReadyEvals(tx Reader) iter.Seq[*structs.Evaluation] {
	return schema.EvalsInOrder.Scan(tx, schema.OpenEval)
}

// LaterEvals yields the pending evaluations that wait for a time, by that time.
func LaterEvals(tx Reader) iter.Seq[*structs.Evaluation] {
	return schema.EvalsInOrder.Scan(tx, schema.LaterEval)
}

// EndedEvals yields the evaluations that are done and that no allocation names, by the time of their end.
func EndedEvals(tx Reader) iter.Seq[*structs.Evaluation] {
	return schema.EvalsInOrder.Scan(tx, schema.DoneEval)
}

// BlockedEval returns the blocked evaluation of a job, and nil if there is none.
func BlockedEval(tx Reader, ns, job string) *structs.Evaluation {
	return schema.EvalsByJob.First(tx, ns, job, schema.OpenEval, structs.EvalBlocked)
}

// EvalUpdate puts new evaluations and the outcomes of processed ones. A failed evaluation whose inputs have
// changed since stays pending.
func EvalUpdate(tx *WriteTx, p *structs.EvalUpdateRequest) error {
	for _, e := range p.Evals {
		if e == nil || e.ID == "" || e.JobID == "" {
			return structs.Invalidf("an evaluation needs an ID and a job")
		}
		e = stampEval(e, p.Now)
		if e.Terminal() && changedSincePlan(tx, e) {
			unblock.PendAgain(e, structs.EvalChanged, changedMeanwhile)
		}
		putEval(tx, e)
	}

	// An unblock of many queues continues in later entries, as far as the leader requests: see package
	// blocked.
	unblock.More(tx, p.Wake)
	return nil
}

// stampEval copies an evaluation of a payload and fills in its optional fields.
func stampEval(e *structs.Evaluation, now int64) *structs.Evaluation {
	e = e.Copy()
	e.Namespace = structs.NamespaceOr(e.Namespace)
	if e.Status == "" {
		e.Status = structs.EvalPending
	}
	if e.CreateTime == 0 {
		e.CreateTime = now
	}
	e.ModifyTime = max(now, e.ModifyTime)
	return e
}

// putEval stores an evaluation. A job has at most one blocked evaluation: the newest. If its key was
// unblocked since its snapshot, it becomes pending at once. An evaluation that is complete, with nothing left
// to place, also cancels the blocked one if it was for the whole job.
func putEval(tx *WriteTx, e *structs.Evaluation) {
	if e.Status == structs.EvalBlocked {
		cancelBlocked(tx, e, "superseded by evaluation "+e.ID)
		key := unblock.Since(tx, e)
		if key != "" {
			unblock.PendAgain(e, structs.EvalChanged, "unblocked meanwhile by "+key)
		}
	}

	if e.Status == structs.EvalComplete &&
		len(e.FailedTGAllocs) == 0 && !ofOneNode(e) {
		cancelBlocked(tx, e, "evaluation "+e.ID+" placed everything")
	}

	old := storeEval(tx, e)
	refreshJobStatus(tx, structs.JobKey{Namespace: e.Namespace, ID: e.JobID}, e.ModifyTime)
	if old != nil &&
		(old.JobID != e.JobID || old.Namespace != e.Namespace) {
		refreshJobStatus(tx, structs.JobKey{Namespace: old.Namespace, ID: old.JobID}, e.ModifyTime)
	}
}

// storeEval puts the row. If the evaluation leaves its queues, storeEval unblocks the next one in each. It
// returns the previous row.
func storeEval(tx *WriteTx, e *structs.Evaluation) (old *structs.Evaluation) {
	// Placed keeps an ended evaluation out of EndedEvals until the last of its allocations is deleted: see
	// reapAlloc.
	e.Placed = e.Terminal() && schema.EvalAllocs.Has(tx, e.ID)
	old = schema.Evals.Put(tx, e)
	unblock.Dequeue(tx, old, e)
	return old
}

// cancelBlocked cancels the blocked evaluations of the job of e, except e itself. They end with the change of
// e.
func cancelBlocked(tx *WriteTx, e *structs.Evaluation, why string) {
	blocked := schema.EvalsByJob.Scan(tx, e.Namespace, e.JobID, schema.OpenEval, structs.EvalBlocked)
	for b := range blocked {
		if b.ID == e.ID {
			continue
		}
		b = b.Copy()
		b.Status = structs.EvalCancelled
		b.StatusDescription = why
		b.ModifyTime = max(b.ModifyTime, e.ModifyTime)
		storeEval(tx, b)
	}
}

// retryEval makes an evaluation pending again because its plan was not applied completely.
func retryEval(tx *WriteTx, e *structs.Evaluation, again string, why ...string) {
	slices.Sort(why)
	unblock.PendAgain(e, again, strings.Join(slices.Compact(why), "; "))
	e.SnapshotIndex = 0 // it found no capacity beside the rejected placements, and may find some now
	putEval(tx, e)
}
