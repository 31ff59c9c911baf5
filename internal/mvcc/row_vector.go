package mvcc

import (
	"slices"
	"sync/atomic"
)

// rowVector holds rows by their numbers, as a persistent vector: a value of it never changes, and its
// successor shares all nodes in which nothing has changed. Its depth is fixed. Only the list of roots
// grows, by one for 16,384 rows.
type rowVector struct {
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

// writings numbers the writings of all vectors.
var writings atomic.Uint64

// newWriting returns the number of a new writing, which is one pass that brings changes into rows.
func newWriting() uint64 { return writings.Add(1) }

// position returns the indexes of a number in its root, its branch and its leaf.
func cellPosition(number uint32) (inRoot, inBranch, inLeaf uint32) {
	inRoot = number >> (leafBits + branchBits) % (1 << branchBits)
	inBranch = number >> leafBits % (1 << branchBits)
	inLeaf = number % (1 << leafBits)
	return inRoot, inBranch, inLeaf
}

// At returns the row of a number that has been set.
func (r *rowVector) At(number uint32) any {
	inRoot, inBranch, inLeaf := cellPosition(number)
	top := r.roots[number/rootRows]
	return top.at[inRoot].at[inBranch].at[inLeaf]
}

// Set puts a row at a number. It changes this value alone, not the vector of which it was copied.
func (r *rowVector) Set(writing uint64, number uint32, row any) {
	if r.writing != writing {
		r.writing = writing
		r.roots = slices.Clone(r.roots)
	}
	for int(number/rootRows) >= len(r.roots) {
		r.roots = append(r.roots, nil)
	}
	inRoot, inBranch, inLeaf := cellPosition(number)
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
