package state

import (
	"slices"
	"sync/atomic"
)

// slot is where a row is kept. It stands in the tree in place of the row, under each of the row's keys, and is
// the same for as long as the row is there: to replace a row by one with the same keys changes nothing in the
// tree, however many indexes it is in.
type slot struct {
	number uint32 // from 1 on; 0 until the row is first written. It never changes for readers
	hash   uint32 // of the row's key
}

// cell is a row and where it is kept; both are nil where there is none.
type cell struct {
	slot *slot
	row  any
}

// rows are the rows by the numbers of their slots. A value of it never changes: the next shares with it all
// parts in which nothing has changed. Its depth is the same for few rows and for many; only the list of racks,
// of 16,384 rows each, grows.
type rows struct {
	writing uint64 // that made the list, and may change it
	racks   []*rack
}

type (
	page struct {
		writing uint64
		at      [1 << pageBits]any
	}
	shelf struct {
		writing uint64
		at      [1 << shelfBits]*page
	}
	rack struct {
		writing uint64
		at      [1 << shelfBits]*shelf
	}
)

const (
	pageBits  = 4
	shelfBits = 5 // of shelves and of racks
	rackRows  = 1 << (pageBits + 2*shelfBits)
)

// writings counts how often changes were brought into rows, of all stores: no two have the same number.
var writings atomic.Uint64

// at returns the row of a number that has been set.
func (r *rows) at(number uint32) any {
	s := r.racks[number/rackRows].at[number>>(pageBits+shelfBits)%(1<<shelfBits)]
	return s.at[number>>pageBits%(1<<shelfBits)].at[number%(1<<pageBits)]
}

// set puts a row at a number, as a part of what one writing changes.
func (r *rows) set(writing uint64, number uint32, row any) {
	if r.writing != writing {
		r.writing, r.racks = writing, slices.Clone(r.racks)
	}
	for int(number/rackRows) >= len(r.racks) {
		r.racks = append(r.racks, nil)
	}
	k := own(&r.racks[number/rackRows], writing)
	s := own(&k.at[number>>(pageBits+shelfBits)%(1<<shelfBits)], writing)
	p := own(&s.at[number>>pageBits%(1<<shelfBits)], writing)
	p.at[number%(1<<pageBits)] = row
}

// own makes a part one that the writing may change: a new one in place of none, a copy of one that others see.
func own[P any, Part interface {
	*P
	by() *uint64
}](at *Part, writing uint64) Part {
	switch p := *at; {
	case p == nil:
		*at = new(P)
	case *p.by() != writing:
		c := *p
		*at = &c
	}
	*(*at).by() = writing
	return *at
}

func (p *page) by() *uint64  { return &p.writing }
func (s *shelf) by() *uint64 { return &s.writing }
func (k *rack) by() *uint64  { return &k.writing }

// numbers gives slots their numbers, and those of rows that are gone to others. It is the writer's. What a
// batch takes and leaves counts from its end on: until then readers and the batch itself may still need it.
type numbers struct {
	last        uint32
	free        []uint32
	taken, left []uint32 // by the batch that is under way
}

func (n *numbers) take() uint32 {
	number := n.last + 1
	if most := len(n.free) - 1; most >= 0 {
		number, n.free = n.free[most], n.free[:most]
	} else {
		n.last = number
	}
	n.taken = append(n.taken, number)
	return number
}

func (n *numbers) leave(number uint32) { n.left = append(n.left, number) }

// comeBack is for a row that was taken out by the batch and came back.
func (n *numbers) comeBack(number uint32) {
	for i, l := range n.left {
		if l == number {
			n.left = append(n.left[:i], n.left[i+1:]...)
			return
		}
	}
}

// commit lets others have what the batch has left.
func (n *numbers) commit() {
	n.free = append(n.free, n.left...)
	n.begin()
}

// giveUp is commit of a batch that nobody will see.
func (n *numbers) giveUp() {
	n.free = append(n.free, n.taken...)
	n.begin()
}

func (n *numbers) begin() { n.taken, n.left = n.taken[:0], n.left[:0] }
