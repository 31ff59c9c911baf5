package state

import (
	"bytes"
	"hash/maphash"
)

// finder is where rows are kept that the writer has looked up or written: it is for what the memo has forgotten,
// which in a large fleet is nearly everything. The way to a row through the tree leads over a dozen pieces of
// memory that no cache holds, this one over three or four. It holds a bounded number of slots, each in the tree as
// the writer has it; that a row is not found here says nothing.
type finder struct{ slots *cache[slot] }

// mostFound is how many slots are held at most: 4 MB.
const mostFound = 1 << 19

func newFinder() finder {
	return finder{newCache(mostFound, func(s *slot) uint64 { return spread(s.hash) })}
}

// hashOf is a hash of a row's key. Its last byte is the key's first: rows of two tables may be of one type, and are
// not to be taken for each other.
func hashOf(k key) uint32 { return uint32(maphash.Bytes(seed, k))<<8 | uint32(k[0]) }

// spread is what of a hash is evenly spread.
func spread(hash uint32) uint64 { return uint64(hash >> 8) }

// at returns what is at the whole key, as far as it is known.
func (f finder) at(k key, in *rows) (c cell, known bool) {
	hash, whole := hashOf(k), schema().whole[k[0]]
	at := f.slots.at(spread(hash))
	for i := range at {
		if s := at[i].Load(); s != nil && s.hash == hash {
			if c := (cell{s, in.at(s.number)}); bytes.Equal(whole(c.row), k) {
				return c, true
			}
		}
	}
	return cell{}, false
}

// keep takes note of a slot.
func (f finder) keep(s *slot) {
	at := f.slots.at(spread(s.hash))
	for i := range at {
		if at[i].Load() == s {
			return
		}
	}
	f.slots.keep(at, s)
}

// forget is for a slot whose row is gone.
func (f finder) forget(s *slot) {
	at := f.slots.at(spread(s.hash))
	for i := range at {
		at[i].CompareAndSwap(s, nil)
	}
}

// clear forgets all.
func (f finder) clear() { f.slots.clear() }
