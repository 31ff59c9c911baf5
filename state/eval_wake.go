package state

import (
	"slices"
	"strings"

	"berth/structs"
)

// Evaluations wait for keys in lines: one for each key, priority and shape, the oldest first. Two of one
// shape find room, or none, alike; so the first of a line stands for all behind it, and only it goes on when
// the key is woken. It keeps its place until it is processed: when it finds room the next goes on, when it
// finds none nobody has slept through anything.
//
// To wake a key costs the same however many wait: a row says when it was, the first of a few lines go on at
// once, and the rest in entries of their own, which the leader proposes while the row says that there are
// more.

// linesAtOnce is how many lines go on in the very entry that wakes their key.
const linesAtOnce = 8

// inLine reports whether an evaluation waits for keys, or was woken and is not processed yet.
func inLine(e *structs.Evaluation) bool {
	return e.Status == structs.EvalBlocked || e.Status == structs.EvalPending && len(e.BlockedOn) > 0
}

// placeOf tells apart the lines for one key, in the order in which they go on: the most important first.
func placeOf(e *structs.Evaluation) string {
	if e.Shape == "" {
		return byPriority(e) + "=" + e.ID
	}
	return byPriority(e) + "~" + e.Shape
}

// sleptThrough returns a key that was woken after the snapshot of an evaluation that stands for its line and
// is not about to go on, "" if there is none.
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

// wokenSince returns a key that was woken after the evaluation's snapshot, "" if none was.
func wokenSince(tx Reader, e *structs.Evaluation) string {
	for _, k := range e.BlockedOn {
		if wokenAt(tx, k) > e.SnapshotIndex {
			return k
		}
	}
	return ""
}

// wokenAt is the index at which a key was last woken, 0 if it never was.
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

// volumeKeys is what the keys of volumes begin with.
var volumeKeys = strings.TrimSuffix(structs.WakeVolume("", ""), ":")

// wake lets those that wait for the key go on and remembers that it was woken.
func wake(tx *WriteTx, key string) {
	if key == structs.WakeCapacity {
		makeRoom(tx, "")
		return
	}
	wakeKey(tx, key)
}

func wakeKey(tx *WriteTx, key string) {
	old := wakes.Get(tx, key)
	if old != nil && old.Unblocked() == tx.Index {
		return // who was worked out before this entry has been woken by it, and who comes after knows of it
	}
	wakes.Put(tx, wakeLines(tx, key, old))
}

// wakeLines lets a few lines go on, and returns what is to be remembered. Where an earlier waking is still on
// its way it begins where that is, and goes once around: so no line is kept waiting by one waking after the
// other.
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

// goOn lets the first of so many more lines go on, and returns how many it came to.
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

// firstAfter returns the first of the first line for the key behind another, "" being before all; nil if
// there is none.
func firstAfter(tx Reader, key, line string) *structs.Evaluation {
	if line == "" {
		return evalsByBlocked.First(tx, key)
	}
	// What follows may be of another key; all of this key behind the line would have come before.
	e := evalsByBlocked.After(tx, key, line)
	if e != nil && slices.Contains(e.BlockedOn, key) && placeOf(e) > line {
		return e
	}
	return nil
}

// rouse makes an evaluation pending that is blocked and was worked out before its key was woken. Another of
// its line has found no room, nor would it have, at the index of seen.
func rouse(tx *WriteTx, e *structs.Evaluation, key string, woken, seen uint64) {
	if e.Status != structs.EvalBlocked || e.SnapshotIndex >= woken {
		return
	}
	e = e.Copy()
	e.SnapshotIndex = max(e.SnapshotIndex, seen)
	pendAgain(e, structs.EvalWoken, "woken by "+key)
	evals.Put(tx, e)
}

// leaveKeys lets the next in line go on where an evaluation was the first and is no more.
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

// WakesDue reports whether there are lines that have yet to go on: the leader is to propose that they do.
func WakesDue(tx Reader) bool { return wakesDue.Has(tx) }

// wakeOn lets so many more lines go on.
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

// wakeVolume is wake for a volume whose row has just changed.
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

// changeQuietly puts a volume's row without waking anybody: what it woke before is remembered otherwise.
func changeQuietly(tx *WriteTx, v *structs.CSIVolume) {
	key := structs.WakeVolume(v.Namespace, v.ID)
	if old := Volume(tx, v.Namespace, v.ID); old != nil && wakes.Get(tx, key) == nil {
		wakes.Put(tx, &structs.UnblockRow{Key: key, At: old.ModifyIndex})
	}
	volumes.Put(tx, v)
}

// forgetWake drops the memory of a key whose subject is gone: should that come again, it wakes again.
func forgetWake(tx *WriteTx, key string) { wakes.Delete(tx, &structs.UnblockRow{Key: key}) }
