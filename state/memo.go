package state

import (
	"bytes"
	"hash/maphash"
)

// memo is what the writer has lately looked up in the tree, so that it need not again: the same few rows are
// read several times by one entry, and by one after the other. It is no more than a few rows, and says what is
// in the tree as the writer has it.
type memo [memoSlots]entry

const (
	memoSlots   = 256 // a power of two
	longestMemo = 512 // bytes of a key; what anybody asks for may be longer
)

func (m *memo) slot(k key) *entry { return &m[maphash.Bytes(memoSeed, k)&(memoSlots-1)] }

var memoSeed = maphash.MakeSeed()

// at returns the row at a key, nil for none, and whether that is known.
func (m *memo) at(k key) (row any, known bool) {
	if s := m.slot(k); len(s.key) > 0 && bytes.Equal(s.key, k) {
		return s.row, true
	}
	return nil, false
}

// keep remembers what is at a key, which it copies.
func (m *memo) keep(k key, row any) {
	if len(k) > longestMemo {
		return
	}
	s := m.slot(k)
	s.key, s.row = append(s.key[:0], k...), row
}

// wrote takes note of what was written into the tree.
func (m *memo) wrote(e entry) {
	if s := m.slot(e.key); bytes.Equal(s.key, e.key) {
		s.row = e.row
	}
}
