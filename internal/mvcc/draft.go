package mvcc

import "math"

// Draft returns a transaction that continues a snapshot with changes of its own. Nobody else sees them: a
// draft is never committed, holds no lock and needs no end. It shows the effect of an entry before there is
// one. Its changes stay in a sorted list, so a draft is for few of them. It reads pages only of indexes that
// it has not changed.
func (tx *ReadTx) Draft() *WriteTx {
	next := *tx.view
	next.applied++
	b := &Batch{
		next:    &next,
		base:    tx.txn,
		rows:    tx.rows,
		overlay: newOverlay(len(next.schema.paths)),
		most:    math.MaxInt,
	}

	return &WriteTx{
		Index: next.applied,
		batch: b,
		ReadTx: &ReadTx{
			view:    &next,
			txn:     tx.txn,
			rows:    tx.rows,
			marks:   tx.marks,
			overlay: &b.overlay,
			draft:   true,
		},
	}
}
