package mvcc

import (
	"bytes"
	"iter"
)

// Page selects the first row of a list and its direction.
type Page struct {
	From    []string // the key of the first row, or its leading parts; nil is the beginning
	Reverse bool     // the last row first; then From is the end of the list in key order
}

// Range yields the rows of a page among those whose key begins with scope. It is for readers. A query watches
// all rows of the scope.
func (x *Index[R]) Range(tx *ReadTx, scope Key, p Page) iter.Seq[R] {
	return func(yield func(R) bool) {
		next := x.index.rangeFunc(tx, scope, p)
		for row := next(); row != nil && yield(row.(R)); {
			row = next()
		}
	}
}

// RangeFunc is Range row by row. The function returns nil after the last row.
func (x *Index[R]) RangeFunc(tx *ReadTx, scope Key, p Page) (next func() R) {
	rows := x.index.rangeFunc(tx, scope, p)
	return func() R {
		r, _ := rows().(R)
		return r
	}
}

func (x *index) rangeFunc(tx *ReadTx, scope Key, p Page) (next func() any) {
	if tx.overlay != nil && (!tx.draft || tx.overlay.hasPath(x.path)) {
		panic("a writer reads a page: that would miss the changes of its batch")
	}

	whole := x.cursor(tx, scope)
	if len(p.From) == 0 && !p.Reverse {
		return whole.Next
	}

	rows := x.seekPage(tx, scope, p)
	return func() any {
		row := rows.Next()
		if row == nil || len(scope) == 0 {
			return row
		}

		id := x.table.key(row)
		if !bytes.HasPrefix(x.keyOf(row, id), scope) {
			return nil
		}

		return row
	}
}

// seekPage reads the index from the first row of a page on, also beyond the scope. No key of a row ends in
// 0x01, so the keys that begin with from are below from with its last byte incremented.
func (x *index) seekPage(tx *ReadTx, scope Key, p Page) scan {
	from := KeyOf(p.From...)
	inScope := bytes.HasPrefix(from, scope)
	behind := bytes.Compare(from, scope) > 0
	wholeScope := x.at(scope)
	switch {
	case !p.Reverse && behind:
		return tx.scan(tx.txn.LowerBound, x.at(from))
	case !p.Reverse:
		return tx.scan(tx.txn.Get, wholeScope)
	case len(from) == 0 || !inScope && behind:
		return tx.scan(tx.txn.GetReverse, wholeScope)
	}
	from[len(from)-1]++
	return tx.scan(tx.txn.ReverseLowerBound, x.at(from))
}
