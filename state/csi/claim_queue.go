package csi

import (
	"cmp"
	"iter"
	"slices"

	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/structs"
)

// The claim queue of a volume. A claim is granted if it conflicts with no granted claim and with no earlier
// waiting claim, and nothing else blocks it (claim_blockers.go). The classes of two claims alone decide
// whether they conflict, and there are few classes. Claims of one mode are bound to one node besides: see
// claim_bound.go. So the next claim is found among the heads of
// the classes, in queue order, and never among all claims. If the head of a class conflicts with a granted
// or earlier claim, the whole class waits.

// VolumeKey names a volume.
type VolumeKey struct{ Namespace, VolumeID string }

// grantable yields the waiting claims that can be granted, in order. It treats each yielded claim as granted:
// the caller grants it or only reads it.
func grantable(tx mvcc.Reader, ns, volume string) iter.Seq[*structs.CSIClaim] {
	return func(yield func(*structs.CSIClaim) bool) {
		counts := ClassCounts(tx, ns, volume)
		waiting := classesOf(counts, structs.ClaimWaiting)
		if len(waiting) == 0 {
			return
		}

		v := Volume(tx, ns, volume)

		// What blocks the volume blocks every class, so no queue is read.
		if v == nil || VolumeBlock(tx, v) != "" {
			return
		}

		w := walk{
			blocking: classesOf(counts, structs.ClaimGranted),
			node:     boundTo(tx, v),
		}
		for _, k := range waiting {
			q := classQueue{
				class:   k,
				blocked: ClassBlock(tx, v, k) != "",
				rows: schema.ClaimsByClass.Cursor(tx, ns, volume, structs.ClaimWaiting,
					schema.ClassKey(k)),
			}

			q.pull()
			w.queues = append(w.queues, q)
		}

		for c := w.next(); c != nil; c = w.next() {
			if NodeBlock(tx, v, c) == "" && !yield(c) {
				return
			}

			// The claim is granted or still ahead: it blocks later claims in both cases.
			if !slices.Contains(w.blocking, c.Class()) {
				w.blocking = append(w.blocking, c.Class())
			}
		}
	}
}

// walk visits the waiting claims of all classes in queue order.
type walk struct {
	blocking []structs.ClaimClass // the classes of granted claims and of earlier waiting ones
	queues   []classQueue

	node  string // of the bound claims that are granted, or earlier: see structs.ClaimClass.Bound
	split bool   // an earlier one waits on another node
}

// excludes reports whether the node of the next claim excludes it. If it does, the claim is ahead of all
// later ones of its mode: of those on another node, and of those on the node of the granted ones.
func (w *walk) excludes(c *structs.CSIClaim) bool {
	if !c.Class().Bound() {
		return false
	}
	w.node = cmp.Or(w.node, c.NodeID)
	w.split = w.split || c.NodeID != w.node
	return w.split
}

// classQueue is the rest of the queue of one class.
type classQueue struct {
	class   structs.ClaimClass
	blocked bool // no claim of the class can be granted now
	rows    mvcc.Cursor[*structs.CSIClaim]
	head    *structs.CSIClaim
}

// pull makes the next claim of the class its head, nil at the end.
func (q *classQueue) pull() {
	q.head = q.rows.Next()
}

// next returns the oldest claim whose class conflicts with no blocking class. A claim that does conflict also
// blocks the later ones, and ends its class.
func (w *walk) next() *structs.CSIClaim {
	for {
		var oldest *classQueue

		// There are few classes, so no order of the heads is kept.
		for i := range w.queues {
			q := &w.queues[i]
			if q.head != nil &&
				(oldest == nil ||
					InQueueOrder(q.head, oldest.head) < 0) {
				oldest = q
			}
		}

		if oldest == nil {
			return nil
		}

		c := oldest.head
		if oldest.blocked ||
			slices.ContainsFunc(w.blocking, oldest.class.Conflicts) || w.excludes(c) {
			w.blocking = append(w.blocking, oldest.class)
			oldest.head = nil
			continue
		}

		oldest.pull()
		return c
	}
}
