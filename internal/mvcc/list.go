package mvcc

import (
	"bytes"
	"slices"
	"sort"

	"github.com/hashicorp/go-memdb"
)

// A list index has a list of slots for the rows whose keys have the same first part. The tree has a key for
// each list and none for the rows, and a slot of the list's own holds the list. So a row that enters or
// leaves a list that exists changes no tree. It copies the list, which should have few hundred rows at most.

// listRow is the row in the slot of a list: a slotList, or a summedList.
type listRow interface{ list() slotList }

// slotList is sorted by key. It never changes.
type slotList []listEntry

func (l slotList) list() slotList { return l }

type listEntry struct {
	key  Key
	slot *slot
}

// firstPart returns the part of a key that names its list, with its end mark.
func firstPart(k Key) Key {
	return k[:bytes.IndexByte(k, 0)+1]
}

func (l slotList) find(k Key) (int, bool) {
	return sort.Find(len(l), func(i int) int {
		return bytes.Compare(k, l[i].key)
	})
}

// withPrefix returns the entries whose keys begin with a prefix.
func (l slotList) withPrefix(prefix Key) slotList {
	i, _ := l.find(prefix)
	rest := l[i:]
	n := sort.Search(len(rest), func(n int) bool {
		return !bytes.HasPrefix(rest[n].key, prefix)
	})
	return rest[:n]
}

// merge returns the list with changes, which are sorted by key.
func (l slotList) merge(changes []entry) slotList {
	next := make(slotList, 0, len(l)+len(changes))
	for _, e := range changes {
		i, found := l.find(e.key)
		next = append(next, l[:i]...)
		l = l[i:]
		if found {
			l = l[1:]
		}
		if e.slot != nil {
			next = append(next, listEntry{e.key, e.slot})
		}
	}
	return append(next, l...)
}

// list returns the row of the list of a key, and its slot, nil if there is none.
func (tx *ReadTx) list(at pathKey) (*slot, listRow) {
	s := tx.slotAt(pathKey{at.path, firstPart(at.key)})
	if s == nil {
		return nil, slotList(nil)
	}
	return s, tx.rows.At(s.number).(listRow)
}

// inList returns the slot that a list has at a whole key, nil if it has none.
func (tx *ReadTx) inList(at pathKey) *slot {
	_, row := tx.list(at)
	l := row.list()
	i, found := l.find(at.key)
	if !found {
		return nil
	}
	return l[i].slot
}

// scanList begins to read the rows whose keys begin with at.key, which has the first part or is empty.
func (tx *ReadTx) scanList(at pathKey) scan {
	it := &listIterator{rows: tx.rows}
	if len(at.key) == 0 {
		it.lists = must(tx.txn.Get(at.path.tree, memdbIndex, tx.keyArgs(nil)...))
	} else {
		_, row := tx.list(at)
		it.rest = row.list().withPrefix(at.key)
	}
	return scan{slots: it, rows: tx.rows}
}

// listIterator yields the slots of a list, and then the slots of other lists.
type listIterator struct {
	rest  slotList
	lists memdb.ResultIterator // or nil
	rows  rowVector
}

// Next returns the next slot, nil after the last one.
func (it *listIterator) Next() any {
	for len(it.rest) == 0 {
		if it.lists == nil {
			return nil
		}
		s, _ := it.lists.Next().(*slot)
		if s == nil {
			return nil
		}
		it.rest = it.rows.At(s.number).(listRow).list()
	}
	s := it.rest[0].slot
	it.rest = it.rest[1:]
	return s
}

// WatchCh implements memdb.ResultIterator. Nobody uses the channel.
func (*listIterator) WatchCh() <-chan struct{} { return nil }

// writeLists writes the changes of a list index, which are sorted by key.
func (b *Batch) writeLists(txn *memdb.Txn, writing uint64, changes []entry) {
	for len(changes) > 0 {
		name := firstPart(changes[0].key)
		n := slices.IndexFunc(changes, func(e entry) bool {
			return !bytes.HasPrefix(e.key, name)
		})
		if n < 0 {
			n = len(changes)
		}
		b.writeList(txn, writing, changes[:n])
		changes = changes[n:]
	}
}

// writeList writes the changes of one list. It reads the list in the trees as they were before the overlay is
// written, because a read of a tree that txn has changed makes txn copy its nodes again.
func (b *Batch) writeList(txn *memdb.Txn, writing uint64, changes []entry) {
	p := changes[0].path
	same := !slices.ContainsFunc(changes, func(e entry) bool { return e.slot != e.tree })
	if same && (p.sums == nil || p.sums.leave(b.rows, changes)) {
		return // other rows with the same keys, or rows that came and went
	}

	next := b.next
	before := ReadTx{view: next, txn: b.base, rows: b.rows}
	s, was := before.list(changes[0].pathKey)
	l := was.list().merge(changes)
	var row any = l
	if p.sums != nil {
		row = p.sums.after(l, was, b.rows, changes)
	}

	name := pathKey{p, firstPart(changes[0].key)}
	switch {
	case s == nil && len(l) == 0:
	case s == nil:
		name.key = bytes.Clone(name.key)
		s = &slot{number: next.slots.Alloc()}
		next.tree.setSlot(txn, name, s)
		next.rows.Set(writing, s.number, row)

	case len(l) == 0:
		next.tree.setSlot(txn, name, nil)
		next.rows.Set(writing, s.number, nil)
		next.slots.Free(s.number)
	default:
		next.rows.Set(writing, s.number, row)
	}
}

// insertLists stores the rows of a snapshot file in the lists of an index. They are sorted by key.
func (l *loading) insertLists(p *path, all slotList) {
	for len(all) > 0 {
		name := firstPart(all[0].key)
		own := all.withPrefix(name)
		all = all[len(own):]
		s := &slot{number: l.view.slots.Fresh()}
		l.view.rows.Set(l.writing, s.number, slices.Clone(own))
		l.view.tree.setSlot(l.txn, pathKey{p, bytes.Clone(name)}, s)
	}
}
