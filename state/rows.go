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

// numbers gives slots their numbers, and those of rows that are gone to others. The rows of one table are near
// each other, a shelf at a time: who goes through them finds many in one piece of memory. It is the writer's.
// What a batch takes and leaves counts from its end on: until then readers and the batch itself may still need it.
type numbers struct {
	of          []uint8 // the tables of the shelves, by number
	next        [mostTables]uint32
	free        [mostTables][]uint32
	taken, left []uint32 // by the batch that is under way
}

const shelfRows = 1 << (pageBits + shelfBits)

// take returns a number for a row of the table.
func (n *numbers) take(table int) uint32 {
	free := n.free[table]
	if most := len(free) - 1; most >= 0 {
		n.free[table] = free[:most]
		n.taken = append(n.taken, free[most])
		return free[most]
	}
	number := n.fresh(table)
	n.taken = append(n.taken, number)
	return number
}

// fresh returns a number that has never been used.
func (n *numbers) fresh(table int) uint32 {
	if n.next[table]%shelfRows == 0 { // the shelf is full, or there was none
		n.of = append(n.of, uint8(table))
		n.next[table] = uint32(len(n.of)-1)*shelfRows + 1 // a shelf's first number stays unused: none is 0
	}
	number := n.next[table]
	n.next[table]++
	return number
}

func (n *numbers) leave(number uint32) { n.left = append(n.left, number) }

// comeBack is for a row that was taken out by the batch and came back.
func (n *numbers) comeBack(number uint32) {
	if i := slices.Index(n.left, number); i >= 0 {
		n.left = slices.Delete(n.left, i, i+1)
	}
}

// commit lets others have what the batch has left.
func (n *numbers) commit() { n.release(n.left) }

// giveUp is commit of a batch that nobody will see.
func (n *numbers) giveUp() { n.release(n.taken) }

func (n *numbers) release(all []uint32) {
	for _, number := range all {
		table := n.of[number/shelfRows]
		n.free[table] = append(n.free[table], number)
	}
	n.taken, n.left = n.taken[:0], n.left[:0]
}

// slots makes the slots of one table many at a time, next to each other.
type slots []slot

// slotsAtOnce are made: what a line of the processor's cache holds.
const slotsAtOnce = 8

func (s *slots) make(hash uint32) *slot {
	if len(*s) == 0 {
		*s = make([]slot, slotsAtOnce)
	}
	first := &(*s)[0]
	first.hash = hash
	*s = (*s)[1:]
	return first
}
