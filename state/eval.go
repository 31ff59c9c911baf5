package state

import (
	"iter"
	"slices"
	"strings"

	"berth/internal/mvcc"
	"berth/structs"
)

const (
	openEval  = "open"
	laterEval = "later"
	doneEval  = "done"

	stays = "stays"
	mayGo = "may go"
)

// keptOrNot tells apart which of those that are done forgetDone may drop.
func keptOrNot(e *structs.Evaluation) string {
	if e.Status == structs.EvalComplete && e.TriggeredBy == structs.TriggerNodeUpdate && !e.Placed {
		return mayGo
	}
	return stays
}

// byPriority is an evaluation's priority as a part of a key: the higher come first.
func byPriority(e *structs.Evaluation) string { return mvcc.Ordered(uint64(1<<32 - int64(e.Priority))) }

// orderedTime is a time, of nanoseconds or seconds, as a part of a key.
func orderedTime(t int64) string { return mvcc.Ordered(uint64(max(t, 0))) }

// Eval returns the evaluation, nil if there is none.
func Eval(tx Reader, id string) *structs.Evaluation { return evals.Get(tx, id) }

// EvalsByJob yields a job's evaluations, those that are done first.
func EvalsByJob(tx Reader, ns, job string) iter.Seq[*structs.Evaluation] {
	return evalsByJob.Scan(tx, ns, job)
}

// ReadyEvals yields the pending evaluations that wait for no time: the most important first, and then the
// oldest.
func ReadyEvals(tx Reader) iter.Seq[*structs.Evaluation] { return evalsByTurn.Scan(tx, openEval) }

// LaterEvals yields the pending evaluations that wait for a time, by that time.
func LaterEvals(tx Reader) iter.Seq[*structs.Evaluation] { return evalsByTurn.Scan(tx, laterEval) }

// EndedEvals yields the evaluations that are done and that no allocation names, by the time of their end.
func EndedEvals(tx Reader) iter.Seq[*structs.Evaluation] { return evalsByTurn.Scan(tx, doneEval) }

// BlockedEval returns the evaluation of a job that waits for a key to be woken, nil if none does.
func BlockedEval(tx Reader, ns, job string) *structs.Evaluation {
	return evalsByJob.First(tx, ns, job, openEval, structs.EvalBlocked)
}

// inNamespace leaves out the rows of other namespaces; "*" leaves out none.
func inNamespace[T any](rows iter.Seq[*T], ns string, of func(*T) string) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for r := range rows {
			if (ns == structs.AllNamespaces || of(r) == ns) && !yield(r) {
				return
			}
		}
	}
}

// EvalUpdate puts evaluations: new ones and what came of those that were processed. One that is given up
// while what it looks at has changed since is kept.
func EvalUpdate(tx *WriteTx, p *structs.EvalUpdateRequest) error {
	for _, e := range p.Evals {
		if e == nil || e.ID == "" || e.JobID == "" {
			return structs.Invalidf("an evaluation needs an ID and a job")
		}
		e = stampEval(e, p.Now)
		if e.Terminal() && wishedSince(tx, e) {
			pendAgain(e, structs.EvalChanged, changedMeanwhile)
		}
		putEval(tx, e)
	}
	wakeOn(tx, p.Wake)
	return nil
}

// stampEval copies what came with a payload and fills in what may be left out.
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

// putEval stores an evaluation. A job has at most one that is blocked: the newest. One that is blocked
// on what has been woken since it was worked out goes on at once; one that is complete with nothing left
// to place takes the blocked one along, if it looked at the whole job.
func putEval(tx *WriteTx, e *structs.Evaluation) {
	if e.Status == structs.EvalBlocked {
		cancelBlocked(tx, e, "superseded by evaluation "+e.ID)
		if key := wokenSince(tx, e); key != "" {
			pendAgain(e, structs.EvalChanged, "woken meanwhile by "+key)
		}
	}
	if e.Status == structs.EvalComplete && len(e.FailedTGAllocs) == 0 && !ofOneNode(e) {
		cancelBlocked(tx, e, "evaluation "+e.ID+" placed everything")
	}
	old := storeEval(tx, e)
	refreshJobStatus(tx, e.Namespace, e.JobID)
	if old != nil && (old.JobID != e.JobID || old.Namespace != e.Namespace) {
		refreshJobStatus(tx, old.Namespace, old.JobID)
	}
}

// storeEval puts the row and lets the next in its lines go on when it leaves them. It returns the row that
// was there.
func storeEval(tx *WriteTx, e *structs.Evaluation) (old *structs.Evaluation) {
	e.Placed = e.Terminal() && allocsByEval.Has(tx, e.ID)
	old = evals.Put(tx, e)
	leaveKeys(tx, old, e)
	return old
}

// cancelBlocked ends the blocked evaluations of e's job, but for e itself.
func cancelBlocked(tx *WriteTx, e *structs.Evaluation, why string) {
	for b := range evalsByJob.Scan(tx, e.Namespace, e.JobID, openEval, structs.EvalBlocked) {
		if b.ID != e.ID {
			b = b.Copy()
			b.Status = structs.EvalCancelled
			b.StatusDescription = why
			storeEval(tx, b)
		}
	}
}

// jobEval is a new pending evaluation of a job; the caller gives it an ID.
func jobEval(j *structs.Job, trigger string, now int64) *structs.Evaluation {
	return &structs.Evaluation{
		Namespace:      j.Namespace,
		Priority:       j.Priority,
		Type:           j.Type,
		TriggeredBy:    trigger,
		JobID:          j.ID,
		JobModifyIndex: j.JobModifyIndex,
		Status:         structs.EvalPending,
		CreateTime:     now,
		ModifyTime:     now,
	}
}

// retryEval puts an evaluation back because its plan was not carried out whole.
func retryEval(tx *WriteTx, e *structs.Evaluation, again string, why ...string) {
	slices.Sort(why)
	pendAgain(e, again, strings.Join(slices.Compact(why), "; "))
	e.SnapshotIndex = 0 // what found no room beside what was not placed may find it
	putEval(tx, e)
}
