package mvcc

import (
	"bytes"
	"iter"

	"github.com/hashicorp/go-memdb"
)

// Page says where a list begins and in which direction it goes.
type Page struct {
	From    []string // the key of the first row, or its leading parts; nil is the beginning
	Reverse bool     // the last row first; then From is the end of the list in key order
}

// Range yields the rows of a page among those whose key begins with scope. It is for readers. A query watches
// all rows of the scope.
func (x *Index[T]) Range(tx *ReadTx, scope Key, p Page) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		next := x.RangeFunc(tx, scope, p)
		for r := next(); r != nil && yield(r); {
			r = next()
		}
	}
}

// RangeFunc is Range row by row. The function returns nil after the last row.
func (x *Index[T]) RangeFunc(tx *ReadTx, scope Key, p Page) (next func() *T) {
	if tx.overlay != nil {
		panic("a writer reads a page: that would miss the changes of its batch")
	}
	whole := x.cursor(tx, scope)
	if len(p.From) == 0 && !p.Reverse {
		return whole.Next
	}
	it := pageIter[T]{index: x, tx: tx, scope: scope, reverse: p.Reverse}
	var from Key
	if len(p.From) > 0 {
		from = KeyOf(p.From...)
		from[0] = x.lead
	}
	it.seek(from)
	return it.next
}

// pageIter reads a part of an index. Behind the end of the index come rows of other indexes, some of them of
// the same type. Such a row has no key in this index that would be the next one.
type pageIter[T any] struct {
	index   *Index[T]
	tx      *ReadTx
	scope   Key
	reverse bool
	slots   memdb.ResultIterator
	last    Key  // of the row before; at first, where the page begins, nil where that is an end of scope
	read    bool // last is the key of a row
	ended   bool
}

// seek goes to the first row of the page. A nil key is the first row or, in reverse, the last one. No key of
// a row ends in 0x01, so the keys that begin with from are below from with its last byte incremented.
func (p *pageIter[T]) seek(from Key) {
	var err error
	switch below := bytes.Compare(from, p.scope) <= 0; {
	case !p.reverse && below:
		p.slots, err = p.tx.txn.Get(memdbTable, memdbIndex, p.tx.keyArgs(p.scope)...)
	case !p.reverse:
		p.last = from
		p.slots, err = p.tx.txn.LowerBound(memdbTable, memdbIndex, p.tx.keyArgs(from)...)
	case from == nil, !below && !bytes.HasPrefix(from, p.scope):
		p.slots, err = p.tx.txn.GetReverse(memdbTable, memdbIndex, p.tx.keyArgs(p.scope)...)
	default:
		from[len(from)-1]++
		p.last = from
		p.slots, err = p.tx.txn.ReverseLowerBound(memdbTable, memdbIndex, p.tx.keyArgs(from)...)
	}
	if err != nil {
		panic(err) // the schema and this code disagree
	}
}

// next returns the next row, nil after the last one.
func (p *pageIter[T]) next() *T {
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

// follows reports whether a row is the next one of the page.
func (p *pageIter[T]) follows(r *T, s *slot) bool {
	t := p.index.table
	k := t.KeyOfRow(r)
	if p.index != &t.ownIndex {
		k = p.index.keyOf(r, k)
	}
	if k == nil || !bytes.HasPrefix(k, p.scope) {
		return false
	}
	order := 1
	if p.last != nil {
		order = bytes.Compare(k, p.last)
	} else if p.reverse {
		order = -1
	}
	first := !p.read
	p.last, p.read = k, true
	switch {
	case first && order == 0, !p.reverse && order > 0, p.reverse && order < 0:
		// Where this table has nothing here, a row of another table may have a key that fits.
		return !first || p.tx.inTree(k) == s
	}
	return false
}

// MergeSorted merges lists that have the order of compare or, in reverse, its opposite.
func MergeSorted[T any](begin func() []func() *T, reverse bool, compare func(a, b *T) int) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		lists := begin()
		heads := make([]*T, len(lists))
		for i, next := range lists {
			heads[i] = next()
		}
		for {
			first := -1
			for i, h := range heads {
				if h != nil && (first < 0 || compare(h, heads[first]) < 0 != reverse) {
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
