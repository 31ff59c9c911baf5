package mvcc

import (
	"slices"
	"sync/atomic"
)

// slot is the stable cell of a row. The trees hold it under each key of the row, in place of the row. To
// replace a row by one with the same keys changes nothing in the trees, however many indexes there are.
type slot struct {
	number uint32 // from 1 on, 0 until the row is first written; it never changes for readers
}

// cell is a row and its slot. Both are nil where there is no row.
type cell struct {
	slot *slot
	row  any
}

// rows holds the rows by the numbers of their slots, as a persistent vector: a value of it never changes, and
// its successor shares all nodes in which nothing has changed. Its depth is fixed. Only the list of roots
// grows, by one for 16,384 rows.
type rows struct {
	writing uint64 // the writing that made the list of roots and may change it
	roots   []*root
}

type (
	leaf struct {
		writing uint64
		at      [1 << leafBits]any
	}
	branch struct {
		writing uint64
		at      [1 << branchBits]*leaf
	}
	root struct {
		writing uint64
		at      [1 << branchBits]*branch
	}
)

const (
	leafBits   = 4
	branchBits = 5 // of branches and of roots
	rootRows   = 1 << (leafBits + 2*branchBits)
)

// writings numbers the writings of all databases. A writing is one pass that brings changes into rows.
var writings atomic.Uint64

// position returns the indexes of a number in its root, its branch and its leaf.
func position(number uint32) (inRoot, inBranch, inLeaf uint32) {
	inRoot = number >> (leafBits + branchBits) % (1 << branchBits)
	inBranch = number >> leafBits % (1 << branchBits)
	inLeaf = number % (1 << leafBits)
	return inRoot, inBranch, inLeaf
}

// at returns the row of a number that has been set.
func (r *rows) at(number uint32) any {
	inRoot, inBranch, inLeaf := position(number)
	top := r.roots[number/rootRows]
	return top.at[inRoot].at[inBranch].at[inLeaf]
}

// set puts a row at a number.
func (r *rows) set(writing uint64, number uint32, row any) {
	if r.writing != writing {
		r.writing = writing
		r.roots = slices.Clone(r.roots)
	}
	for int(number/rootRows) >= len(r.roots) {
		r.roots = append(r.roots, nil)
	}
	inRoot, inBranch, inLeaf := position(number)
	top := ownNode(&r.roots[number/rootRows], writing)
	b := ownNode(&top.at[inRoot], writing)
	l := ownNode(&b.at[inBranch], writing)
	l.at[inLeaf] = row
}

// ownNode replaces a node by one that the writing may change: by a new node, or by a copy of a node that
// others see.
func ownNode[N any, Node interface {
	*N
	owner() *uint64
}](at *Node, writing uint64) Node {
	switch n := *at; {
	case n == nil:
		*at = new(N)
	case *n.owner() != writing:
		*at = new(*n)
	}
	*(*at).owner() = writing
	return *at
}

func (l *leaf) owner() *uint64 {
	return &l.writing
}

func (b *branch) owner() *uint64 {
	return &b.writing
}

func (r *root) owner() *uint64 {
	return &r.writing
}

// slotAlloc gives numbers to slots and reuses the numbers of deleted rows. It belongs to the writer. The
// changes of a batch count from its end on: until then readers and the batch itself may need the slots.
type slotAlloc struct {
	last         uint32 // the largest number given so far; 0 is never given
	unused       []uint32
	taken, freed []uint32 // by the current batch
}

// alloc returns a number for a row.
func (a *slotAlloc) alloc() (number uint32) {
	if n := len(a.unused); n > 0 {
		number = a.unused[n-1]
		a.unused = a.unused[:n-1]
	} else {
		number = a.fresh()
	}
	a.taken = append(a.taken, number)
	return number
}

// fresh returns a number that was never used.
func (a *slotAlloc) fresh() uint32 {
	a.last++
	return a.last
}

func (a *slotAlloc) free(number uint32) {
	a.freed = append(a.freed, number)
}

// revive takes back the free of a row that the batch deleted and that a rollback restored.
func (a *slotAlloc) revive(number uint32) {
	i := slices.Index(a.freed, number)
	if i >= 0 {
		a.freed = slices.Delete(a.freed, i, i+1)
	}
}

// commit makes the numbers available that the batch has freed.
func (a *slotAlloc) commit() {
	a.release(a.freed)
}

// rollback makes the numbers available that an aborted batch has allocated.
func (a *slotAlloc) rollback() {
	a.release(a.taken)
}

func (a *slotAlloc) release(numbers []uint32) {
	a.unused = append(a.unused, numbers...)
	a.taken = a.taken[:0]
	a.freed = a.freed[:0]
}
