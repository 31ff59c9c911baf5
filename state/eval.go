package state

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"berth/structs"
)

var (
	evals      = newTable("evals", func(e *structs.Evaluation) key { return keyOf(e.ID) })
	evalsByJob = evals.by("job", func(e *structs.Evaluation) key {
		return keyOf(e.Namespace, e.JobID, openOrDone(e))
	})
	evalsByStatus  = evals.by("status", func(e *structs.Evaluation) key { return keyOf(e.Status) })
	evalsByBlocked = evals.byMany("blocked_on", func(e *structs.Evaluation) []key {
		if e.Status != structs.EvalBlocked {
			return nil
		}
		var keys []key
		for _, k := range e.BlockedOn {
			keys = append(keys, keyOf(k))
		}
		return keys
	})

	wakes = newTable("wakes", func(w *wakeRow) key { return keyOf(w.Key) })
)

// wakeRow remembers when a key was last woken, for evaluations that are put blocked after they were worked
// out on an older snapshot. A volume needs none as long as every change of its own row has woken its key.
type wakeRow struct {
	Key string
	At  uint64 `codec:",omitempty"` // 0: ModifyIndex
	structs.Indexes
}

func (w *wakeRow) woken() uint64 { return cmp.Or(w.At, w.ModifyIndex) }

const (
	openEval = "open"
	doneEval = "done"
)

func openOrDone(e *structs.Evaluation) string {
	if e.Terminal() {
		return doneEval
	}
	return openEval
}

// Eval returns the evaluation, nil if there is none.
func Eval(tx *Read, id string) *structs.Evaluation { return evals.get(tx, id) }

// Evals yields the evaluations of a namespace whose ID begins so.
func Evals(tx *Read, ns, prefix string) iter.Seq[*structs.Evaluation] {
	return inNamespace(evals.prefix(tx, prefix), ns, func(e *structs.Evaluation) string { return e.Namespace })
}

// EvalsByJob yields a job's evaluations, those that are done first.
func EvalsByJob(tx *Read, ns, job string) iter.Seq[*structs.Evaluation] {
	return evalsByJob.all(tx, ns, job)
}

// EvalsByStatus yields the evaluations in one of the states.
func EvalsByStatus(tx *Read, status string) iter.Seq[*structs.Evaluation] {
	return evalsByStatus.all(tx, status)
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

// EvalUpdate puts evaluations: new ones and what came of those that were processed.
func EvalUpdate(tx *Write, p *structs.EvalUpdateRequest) error {
	for _, e := range p.Evals {
		if e == nil || e.ID == "" || e.JobID == "" {
			return structs.Errorf(structs.KindInvalid, "an evaluation needs an ID and a job")
		}
		putEval(tx, stampEval(e, p.Now))
	}
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
// to place takes the blocked one along.
func putEval(tx *Write, e *structs.Evaluation) {
	if e.Status == structs.EvalBlocked {
		cancelBlocked(tx, e, "superseded by evaluation "+e.ID)
		if key := wokenSince(tx.Read, e); key != "" {
			e.Status, e.StatusDescription = structs.EvalPending, "woken meanwhile by "+key
		}
	}
	if e.Status == structs.EvalComplete && len(e.FailedTGAllocs) == 0 {
		cancelBlocked(tx, e, "evaluation "+e.ID+" placed everything")
	}
	old := Eval(tx.Read, e.ID)
	evals.put(tx, e)
	refreshJobStatus(tx, e.Namespace, e.JobID)
	if old != nil && (old.JobID != e.JobID || old.Namespace != e.Namespace) {
		refreshJobStatus(tx, old.Namespace, old.JobID)
	}
}

// cancelBlocked ends the blocked evaluations of e's job, but for e itself.
func cancelBlocked(tx *Write, e *structs.Evaluation, why string) {
	for b := range evalsByJob.all(tx.Read, e.Namespace, e.JobID, openEval) {
		if b.Status == structs.EvalBlocked && b.ID != e.ID {
			b = b.Copy()
			b.Status, b.StatusDescription = structs.EvalCancelled, why
			evals.put(tx, b)
		}
	}
}

// wokenSince returns a key that was woken after the evaluation's snapshot, "" if none was.
func wokenSince(tx *Read, e *structs.Evaluation) string {
	for _, k := range e.BlockedOn {
		if wokenAt(tx, k) > e.SnapshotIndex {
			return k
		}
	}
	return ""
}

// wokenAt is the index at which a key was last woken, 0 if it never was.
func wokenAt(tx *Read, key string) uint64 {
	if w := wakes.get(tx, key); w != nil {
		return w.woken()
	}
	ns, id, _ := strings.Cut(strings.TrimPrefix(key, volumeKeys), ":")
	if v := Volume(tx, ns, id); v != nil && strings.HasPrefix(key, volumeKeys) {
		return v.ModifyIndex
	}
	return 0
}

// volumeKeys is what the keys of volumes begin with.
var volumeKeys = strings.TrimSuffix(structs.WakeVolume("", ""), ":")

// wake makes pending every evaluation that is blocked on the key and remembers that it was woken.
func wake(tx *Write, key string) {
	if w := wakes.get(tx.Read, key); w == nil || w.woken() != tx.Index {
		wakes.put(tx, &wakeRow{Key: key})
	}
	wakeBlocked(tx, key)
}

// wakeVolume is wake for a volume whose row has just changed.
func wakeVolume(tx *Write, v *structs.CSIVolume) {
	key := structs.WakeVolume(v.Namespace, v.ID)
	if w := wakes.get(tx.Read, key); w != nil {
		wakes.delete(tx, w)
	}
	wakeBlocked(tx, key)
}

// changeQuietly puts a volume's row without waking anybody: what it woke before is remembered otherwise.
func changeQuietly(tx *Write, v *structs.CSIVolume) {
	key := structs.WakeVolume(v.Namespace, v.ID)
	if old := Volume(tx.Read, v.Namespace, v.ID); old != nil && wakes.get(tx.Read, key) == nil {
		wakes.put(tx, &wakeRow{Key: key, At: old.ModifyIndex})
	}
	volumes.put(tx, v)
}

func wakeBlocked(tx *Write, key string) {
	for e := range evalsByBlocked.all(tx.Read, key) {
		e = e.Copy()
		e.Status, e.StatusDescription = structs.EvalPending, "woken by "+key
		evals.put(tx, e)
	}
}

// forgetWake drops the memory of a key whose subject is gone: should that come again, it wakes again.
func forgetWake(tx *Write, key string) { wakes.delete(tx, &wakeRow{Key: key}) }

// jobEval is a new pending evaluation of a job; the caller gives it an ID.
func jobEval(j *structs.Job, trigger string, now int64) *structs.Evaluation {
	return &structs.Evaluation{Namespace: j.Namespace, Priority: j.Priority, Type: j.Type, TriggeredBy: trigger, JobID: j.ID,
		JobModifyIndex: j.JobModifyIndex, Status: structs.EvalPending, CreateTime: now, ModifyTime: now}
}

// retryEval puts an evaluation back because its plan was not carried out whole.
func retryEval(tx *Write, e *structs.Evaluation, why []string) {
	slices.Sort(why)
	e.Status, e.StatusDescription = structs.EvalPending, strings.Join(slices.Compact(why), "; ")
	putEval(tx, e)
}
