package state

import (
	"bytes"
	"iter"

	"github.com/hashicorp/go-memdb"
)

// Start says where a list begins, and which way it goes.
type Start struct {
	Key     []string // of the first row, or what its key begins with; nil is the beginning
	Reverse bool     // last row first; Key is then where its end is
}

// part goes through the rows of an index whose key begins with scope, from where it is to start. It is for readers.
func (x *index[T]) part(tx *Read, scope key, at Start) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		next := x.pull(tx, scope, at)
		for r := next(); r != nil && yield(r); {
			r = next()
		}
	}
}

// pull is part for who takes one row after the other; behind the last comes nil.
func (x *index[T]) pull(tx *Read, scope key, at Start) (next func() *T) {
	if tx.pending != nil {
		panic("a writer goes through a list: what is pending would be left out")
	}
	whole := x.under(tx, scope) // a waiting reader watches the whole range
	if len(at.Key) == 0 && !at.Reverse {
		return whole.Next
	}
	p := passage[T]{index: x, tx: tx, scope: scope, back: at.Reverse}
	var begin key
	if len(at.Key) > 0 {
		begin = keyOf(at.Key...)
		begin[0] = x.lead
	}
	p.seek(begin)
	return p.next
}

// passage is a part of an index. Beyond the end of the index come rows of others, some of which may be of the same
// type: they are told by having, in this index, no key that would be next.
type passage[T any] struct {
	index *index[T]
	tx    *Read
	scope key
	back  bool
	slots memdb.ResultIterator
	last  key  // of the row before; at first, where the passage begins, nil where that is an end of scope
	read  bool // a row
	ended bool // there are no more
}

// seek goes to the row with the key, nil is the first or, backwards, the last. No key of a row ends in the byte
// 1: so whatever begins with the key is below the one that does.
func (p *passage[T]) seek(begin key) {
	var err error
	switch below := bytes.Compare(begin, p.scope) <= 0; {
	case !p.back && below:
		p.slots, err = p.tx.txn.Get(oneTable, oneIndex, p.tx.asked(p.scope)...)
	case !p.back:
		p.last = begin
		p.slots, err = p.tx.txn.LowerBound(oneTable, oneIndex, p.tx.asked(begin)...)
	case begin == nil, !below && !bytes.HasPrefix(begin, p.scope):
		p.slots, err = p.tx.txn.GetReverse(oneTable, oneIndex, p.tx.asked(p.scope)...)
	default:
		begin[len(begin)-1]++
		p.last = begin
		p.slots, err = p.tx.txn.ReverseLowerBound(oneTable, oneIndex, p.tx.asked(begin)...)
	}
	if err != nil {
		panic(err) // the schema and this code disagree
	}
}

// next returns the next row, nil after the last.
func (p *passage[T]) next() *T {
	if p.ended {
		return nil
	}
	s, _ := p.slots.Next().(*slot)
	if s != nil {
		if r, ok := p.tx.atSlot(s).row.(*T); ok && p.follows(r, s) {
			return r
		}
	}
	p.ended = true
	return nil
}

// follows reports whether a row is the next of this part.
func (p *passage[T]) follows(r *T, s *slot) bool {
	t := p.index.table
	k := t.whole(r)
	if p.index != &t.index {
		k = p.index.of(r, k)
	}
	if k == nil || !bytes.HasPrefix(k, p.scope) {
		return false
	}
	order := 1
	if p.last != nil {
		order = bytes.Compare(k, p.last)
	} else if p.back {
		order = -1
	}
	first := !p.read
	p.last, p.read = k, true
	switch {
	case first && order == 0, !p.back && order > 0, p.back && order < 0:
		// Where this table has nothing here, a row of another may have a key that fits.
		return !first || p.tx.inTree(k) == s
	}
	return false
}

// inTurn merges lists, each in the order of compare or, backwards, in that of its opposite.
func inTurn[T any](begin func() []func() *T, back bool, compare func(a, b *T) int) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		lists := begin()
		heads := make([]*T, len(lists))
		for i, next := range lists {
			heads[i] = next()
		}
		for {
			first := -1
			for i, h := range heads {
				if h != nil && (first < 0 || compare(h, heads[first]) < 0 != back) {
					first = i
				}
			}
			if first < 0 || !yield(heads[first]) {
				return
			}
			heads[first] = lists[first]()
		}
	}
}
