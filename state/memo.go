package state

import (
	"bytes"
	"hash/maphash"
)

// memo is what the writer has lately looked up in the tree, so that it need not again: the same few rows are
// read several times by one entry, and by one after the other. It is no more than a few rows, and says what is
// in the tree as the writer has it.
type memo [memoSlots]noted

// noted is what is at one key; nothing where there is no key.
type noted struct {
	key key
	cell
}

const (
	memoSlots   = 256 // a power of two
	longestMemo = 512 // bytes of a key; what anybody asks for may be longer
)

func (m *memo) place(k key) *noted { return &m[maphash.Bytes(memoSeed, k)&(memoSlots-1)] }

var memoSeed = maphash.MakeSeed()

// at returns what is at a key, and whether that is known.
func (m *memo) at(k key) (c cell, known bool) {
	if s := m.place(k); len(s.key) > 0 && bytes.Equal(s.key, k) {
		return s.cell, true
	}
	return cell{}, false
}

// keep remembers what is at a key, which it copies.
func (m *memo) keep(k key, c cell) {
	if len(k) > longestMemo {
		return
	}
	s := m.place(k)
	s.key, s.cell = append(s.key[:0], k...), c
}

// wrote takes note of what was written into the tree.
func (m *memo) wrote(e *entry) {
	if s := m.place(e.key); bytes.Equal(s.key, e.key) {
		s.cell = e.cell
	}
}
