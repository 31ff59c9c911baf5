package unblock

import (
	"slices"
	"strings"

	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/structs"
)

// Blocked evaluations wait for keys in queues: one queue for each key, priority and shape, the oldest first.
// Two evaluations of one shape either both find capacity or both find none. So an unblocked key makes only
// the head of each queue pending. The head keeps its position until it is processed. If it finds capacity,
// the next one becomes pending. If it finds none, the others have missed nothing.
//
// The cost of an unblock does not depend on the number of waiting evaluations: a row records its index, the
// heads of a few queues become pending at once, and the others in later entries, which the leader proposes
// while the row has queues left.

// QueuesAtOnce is the number of queues that the unblocking entry itself unblocks.
const QueuesAtOnce = 8

// Missed returns a key that was unblocked after the snapshot of an evaluation that is the head of its
// queue and not about to become pending, and "" if there is none.
func Missed(tx mvcc.Reader, e *structs.Evaluation) string {
	queue := schema.QueueKey(e)
	for _, k := range e.BlockedOn {
		w := schema.Unblocks.Get(tx, k)
		first := schema.EvalsByBlocked.First(tx, k, queue)
		if first.ID == e.ID &&
			unblockedAt(tx, k) > e.SnapshotIndex &&
			(w == nil || !w.Covers(queue)) {
			return k
		}
	}
	return ""
}

// Since returns a key that was unblocked after the evaluation's snapshot, and "" if there is none.
func Since(tx mvcc.Reader, e *structs.Evaluation) string {
	for _, k := range e.BlockedOn {
		if unblockedAt(tx, k) > e.SnapshotIndex {
			return k
		}
	}
	return ""
}

// unblockedAt returns the index at which a key was last unblocked, and 0 if it never was.
func unblockedAt(tx mvcc.Reader, key string) uint64 {
	w := schema.Unblocks.Get(tx, key)
	if w != nil {
		return w.Unblocked()
	}
	volume, found := strings.CutPrefix(key, volumeKeys)
	ns, id, _ := strings.Cut(volume, ":")
	v := schema.Volumes.Get(tx, ns, id)
	if found && v != nil {
		return v.ModifyIndex
	}
	return 0
}

// volumeKeys is the prefix of the unblock keys of volumes.
var volumeKeys = strings.TrimSuffix(structs.WakeVolume("", ""), ":")

// Key unblocks a key and records the index.
func Key(tx *mvcc.WriteTx, key string) {
	if key == structs.WakeCapacity {
		Capacity(tx, "")
		return
	}
	KeyOnly(tx, key)
}

// KeyOnly unblocks a key of any kind, and records the index. Of freed capacity it records no node: see
// Capacity.
func KeyOnly(tx *mvcc.WriteTx, key string) {
	old := schema.Unblocks.Get(tx, key)
	if old != nil && old.Unblocked() == tx.Index {
		return // this entry unblocks all earlier evaluations, and later ones see it in their snapshots
	}
	schema.Unblocks.Put(tx, unblockQueues(tx, key, old))
}

// unblockQueues unblocks the heads of a few queues, and returns the row to record. If an earlier unblock of
// the key is still in progress, it begins there and goes around once, so that a series of unblocks delays no
// queue for ever.
func unblockQueues(tx *mvcc.WriteTx, key string, old *structs.UnblockRow) *structs.UnblockRow {
	w := &structs.UnblockRow{
		Key: key,
		At:  tx.Index,
		Due: schema.EvalsByBlocked.Has(tx, key),
	}
	if w.Due && old != nil && old.Due {
		w.Next = old.Next
		w.Then = old.Next
	}
	if old != nil {
		w.Freed = old.Freed
		w.Forgotten = old.Forgotten
	}
	unblockHeads(tx, w, QueuesAtOnce)
	w.At = 0
	return w
}

// unblockHeads unblocks the heads of at most n more queues, and returns their number.
func unblockHeads(tx *mvcc.WriteTx, w *structs.UnblockRow, n int) (unblocked int) {
	for ; w.Due && unblocked < n; unblocked++ {
		first := firstAfter(tx, w.Key, w.Next)
		switch {
		case first != nil && (w.Last == "" || schema.QueueKey(first) <= w.Last):
			w.Next = schema.QueueKey(first)
			if blockedBefore(first, w.Unblocked()) {
				unblockEval(tx, first, w.Key, 0)
			}

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
	return unblocked
}

// firstAfter returns the head of the first queue for the key after another one, where "" is before all. It
// returns nil if there is none.
func firstAfter(tx mvcc.Reader, key, queue string) *structs.Evaluation {
	if queue == "" {
		return schema.EvalsByBlocked.First(tx, key)
	}
	// The next row may belong to another key. A row of this key beyond the queue would have come before.
	e := schema.EvalsByBlocked.After(tx, key, queue)
	if e != nil && slices.Contains(e.BlockedOn, key) &&
		schema.QueueKey(e) > queue {
		return e
	}
	return nil
}

// blockedBefore reports whether an evaluation is blocked and its snapshot is from before an unblock.
func blockedBefore(e *structs.Evaluation, unblocked uint64) bool {
	return e.Status == structs.EvalBlocked && e.SnapshotIndex < unblocked
}

// unblockEval makes a blocked evaluation pending. At the index seen another evaluation of its queue has found
// no capacity, so this one would find none.
func unblockEval(tx *mvcc.WriteTx, e *structs.Evaluation, key string, seen uint64) {
	e = e.Copy()
	e.SnapshotIndex = max(e.SnapshotIndex, seen)
	PendAgain(e, structs.EvalWoken, "woken by "+key)
	schema.Evals.Put(tx, e)
}

// Dequeue unblocks the next evaluation of each queue that has lost its head.
func Dequeue(tx *mvcc.WriteTx, old, now *structs.Evaluation) {
	if old == nil || !schema.IsQueued(old) {
		return
	}
	queue := schema.QueueKey(old)
	stays := schema.IsQueued(now) && schema.QueueKey(now) == queue
	for _, k := range old.BlockedOn {
		if stays && slices.Contains(now.BlockedOn, k) {
			continue
		}
		next := schema.EvalsByBlocked.First(tx, k, queue)
		if next != nil && blockedBefore(next, unblockedAt(tx, k)) {
			unblockEval(tx, next, k, old.SnapshotIndex)
		}
	}
}

// Due reports whether queues are left to unblock. The leader then proposes to unblock them.
func Due(tx mvcc.Reader) bool {
	return schema.UnblocksDue.Has(tx)
}

// More unblocks n more queues.
func More(tx *mvcc.WriteTx, n int) {
	for n > 0 {
		old := schema.UnblocksDue.First(tx)
		if old == nil {
			return
		}
		w := *old
		w.At = old.Unblocked()
		n -= unblockHeads(tx, &w, n)
		schema.Unblocks.Put(tx, &w)
	}
}

// Volume unblocks the key of a volume whose row has just changed.
func Volume(tx *mvcc.WriteTx, v *structs.CSIVolume) {
	if v.Host != nil {
		KeyOnly(tx, structs.WakeHostVolume(v.Namespace, v.Host.Name))
	}
	key := structs.WakeVolume(v.Namespace, v.ID)
	old := schema.Unblocks.Get(tx, key)
	w := unblockQueues(tx, key, old)
	switch {
	case w.Due:
		schema.Unblocks.Put(tx, w)
	case old != nil:
		schema.Unblocks.Delete(tx, old)
	}
}

// PutVolumeWithout puts a volume's row without an unblock. An unblock row records the index of the earlier
// one.
func PutVolumeWithout(tx *mvcc.WriteTx, v *structs.CSIVolume) {
	key := structs.WakeVolume(v.Namespace, v.ID)
	old := schema.Volumes.Get(tx, v.Namespace, v.ID)
	if old != nil && schema.Unblocks.Get(tx, key) == nil {
		schema.Unblocks.Put(tx, &structs.UnblockRow{
			Key: key,
			At:  old.ModifyIndex,
		})
	}
	schema.Volumes.Put(tx, v)
}

// Delete deletes the record of a key whose subject is gone. A new subject of the key unblocks it
// again.
func Delete(tx *mvcc.WriteTx, key string) {
	schema.Unblocks.Delete(tx, &structs.UnblockRow{Key: key})
}

// PendAgain makes an evaluation pending again.
func PendAgain(e *structs.Evaluation, again, description string) {
	e.Status = structs.EvalPending
	e.Again = again
	e.StatusDescription = description
}
