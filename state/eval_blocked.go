package state

import (
	"slices"
	"strings"

	"berth/structs"
)

// Blocked evaluations wait for keys in queues: one queue for each key, priority and shape, the oldest first.
// Two evaluations of one shape either both find capacity or both find none. So an unblocked key makes only
// the head of each queue pending. The head keeps its place until it is processed. If it finds capacity, the
// next one becomes pending. If it finds none, the others have missed nothing.
//
// The cost of an unblock does not depend on the number of waiting evaluations: a row records its index, the
// heads of a few queues become pending at once, and the others in later entries, which the leader proposes
// while the row has queues left.

// linesAtOnce is the number of queues that the unblocking entry itself unblocks.
const linesAtOnce = 8

// inLine reports whether an evaluation waits for keys, or was unblocked and is not processed yet.
func inLine(e *structs.Evaluation) bool {
	return e.Status == structs.EvalBlocked || e.Status == structs.EvalPending && len(e.BlockedOn) > 0
}

// placeOf identifies the queue of a key, in the order of unblocking: the highest priority first.
func placeOf(e *structs.Evaluation) string {
	if e.Shape == "" {
		return byPriority(e) + "=" + e.ID
	}
	return byPriority(e) + "~" + e.Shape
}

// sleptThrough returns a key that was unblocked after the snapshot of an evaluation that is the head of its
// queue and not about to become pending, and "" if there is none.
func sleptThrough(tx Reader, e *structs.Evaluation) string {
	for _, k := range e.BlockedOn {
		w := wakes.Get(tx, k)
		first := evalsByBlocked.First(tx, k, placeOf(e))
		if first.ID == e.ID && wokenAt(tx, k) > e.SnapshotIndex && (w == nil || !w.Covers(placeOf(e))) {
			return k
		}
	}
	return ""
}

// wokenSince returns a key that was unblocked after the evaluation's snapshot, and "" if there is none.
func wokenSince(tx Reader, e *structs.Evaluation) string {
	for _, k := range e.BlockedOn {
		if wokenAt(tx, k) > e.SnapshotIndex {
			return k
		}
	}
	return ""
}

// wokenAt returns the index at which a key was last unblocked, and 0 if it never was.
func wokenAt(tx Reader, key string) uint64 {
	if w := wakes.Get(tx, key); w != nil {
		return w.Unblocked()
	}
	ns, id, _ := strings.Cut(strings.TrimPrefix(key, volumeKeys), ":")
	if v := Volume(tx, ns, id); v != nil && strings.HasPrefix(key, volumeKeys) {
		return v.ModifyIndex
	}
	return 0
}

// volumeKeys is the prefix of the unblock keys of volumes.
var volumeKeys = strings.TrimSuffix(structs.WakeVolume("", ""), ":")

// wake unblocks a key and records the index.
func wake(tx *WriteTx, key string) {
	if key == structs.WakeCapacity {
		unblockCapacity(tx, "")
		return
	}
	wakeKey(tx, key)
}

func wakeKey(tx *WriteTx, key string) {
	old := wakes.Get(tx, key)
	if old != nil && old.Unblocked() == tx.Index {
		return // this entry unblocks all earlier evaluations, and later ones see it in their snapshots
	}
	wakes.Put(tx, wakeLines(tx, key, old))
}

// wakeLines unblocks the heads of a few queues, and returns the row to record. If an earlier unblock of the
// key is still in progress, it begins there and goes around once, so that a series of unblocks delays no
// queue for ever.
func wakeLines(tx *WriteTx, key string, old *structs.UnblockRow) *structs.UnblockRow {
	w := &structs.UnblockRow{Key: key, At: tx.Index, Due: evalsByBlocked.Has(tx, key)}
	if w.Due && old != nil && old.Due {
		w.Next = old.Next
		w.Then = old.Next
	}
	if old != nil {
		w.Rooms = old.Rooms
		w.Forgotten = old.Forgotten
	}
	goOn(tx, w, linesAtOnce)
	w.At = 0
	return w
}

// goOn unblocks the heads of at most so many more queues, and returns their number.
func goOn(tx *WriteTx, w *structs.UnblockRow, most int) (came int) {
	for ; w.Due && came < most; came++ {
		first := firstAfter(tx, w.Key, w.Next)
		switch {
		case first != nil && (w.Last == "" || placeOf(first) <= w.Last):
			w.Next = placeOf(first)
			rouse(tx, first, w.Key, w.Unblocked(), 0)
		case w.Then != "":
			w.Next = ""
			w.Last = w.Then
			w.Then = ""
		default:
			w.Due = false
			w.Next = ""
			w.Last = ""
		}
	}
	return came
}

// firstAfter returns the head of the first queue for the key after another one, where "" is before all. It
// returns nil if there is none.
func firstAfter(tx Reader, key, line string) *structs.Evaluation {
	if line == "" {
		return evalsByBlocked.First(tx, key)
	}
	// The next row may belong to another key. A row of this key beyond the queue would have come before.
	e := evalsByBlocked.After(tx, key, line)
	if e != nil && slices.Contains(e.BlockedOn, key) && placeOf(e) > line {
		return e
	}
	return nil
}

// rouse makes an evaluation pending that is blocked and whose snapshot is from before the unblock of its key.
// Another evaluation of its queue has found no capacity, and neither would this one, at the index of seen.
func rouse(tx *WriteTx, e *structs.Evaluation, key string, woken, seen uint64) {
	if e.Status != structs.EvalBlocked || e.SnapshotIndex >= woken {
		return
	}
	e = e.Copy()
	e.SnapshotIndex = max(e.SnapshotIndex, seen)
	pendAgain(e, structs.EvalWoken, "woken by "+key)
	evals.Put(tx, e)
}

// leaveKeys unblocks the next evaluation of each queue that has lost its head.
func leaveKeys(tx *WriteTx, old, now *structs.Evaluation) {
	if old == nil || !inLine(old) {
		return
	}
	stays := inLine(now) && placeOf(now) == placeOf(old)
	for _, k := range old.BlockedOn {
		if stays && slices.Contains(now.BlockedOn, k) {
			continue
		}
		if next := evalsByBlocked.First(tx, k, placeOf(old)); next != nil {
			rouse(tx, next, k, wokenAt(tx, k), old.SnapshotIndex)
		}
	}
}

// WakesDue reports whether queues are left to unblock. The leader then proposes to unblock them.
func WakesDue(tx Reader) bool { return wakesDue.Has(tx) }

// wakeOn unblocks so many more queues.
func wakeOn(tx *WriteTx, most int) {
	for most > 0 {
		old := wakesDue.First(tx)
		if old == nil {
			return
		}
		w := *old
		w.At = old.Unblocked()
		most -= goOn(tx, &w, most)
		wakes.Put(tx, &w)
	}
}

// wakeVolume unblocks the key of a volume whose row has just changed.
func wakeVolume(tx *WriteTx, v *structs.CSIVolume) {
	key := structs.WakeVolume(v.Namespace, v.ID)
	old := wakes.Get(tx, key)
	w := wakeLines(tx, key, old)
	switch {
	case w.Due:
		wakes.Put(tx, w)
	case old != nil:
		wakes.Delete(tx, old)
	}
}

// changeQuietly puts a volume's row without an unblock. Another row records the earlier one.
func changeQuietly(tx *WriteTx, v *structs.CSIVolume) {
	key := structs.WakeVolume(v.Namespace, v.ID)
	if old := Volume(tx, v.Namespace, v.ID); old != nil && wakes.Get(tx, key) == nil {
		wakes.Put(tx, &structs.UnblockRow{Key: key, At: old.ModifyIndex})
	}
	volumes.Put(tx, v)
}

// forgetWake deletes the record of a key whose subject is gone. A new subject of the key unblocks it again.
func forgetWake(tx *WriteTx, key string) { wakes.Delete(tx, &structs.UnblockRow{Key: key}) }
