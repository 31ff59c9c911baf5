package mvcc

import (
	"bytes"
	"hash/maphash"
)

// A writer has two caches in front of the tree. Both say what the tree of the writer has.

// recent holds the results of the last look-ups by key, also that there is no row. One entry of the log reads
// the same few rows several times.
type recent [recentKeys]recentKey

// recentKey is the result of one look-up. It has no key where the place is free.
type recentKey struct {
	key Key
	cell
}

const (
	recentKeys   = 256 // a power of two
	maxRecentKey = 512 // bytes; a caller may ask for a longer key
)

func (r *recent) place(k Key) *recentKey { return &r[maphash.Bytes(hashSeed, k)&(recentKeys-1)] }

// at returns the cell at a key and whether it is known.
func (r *recent) at(k Key) (c cell, known bool) {
	if p := r.place(k); len(p.key) > 0 && bytes.Equal(p.key, k) {
		return p.cell, true
	}
	return cell{}, false
}

// keep stores the cell at a key. It copies the key.
func (r *recent) keep(k Key, c cell) {
	if len(k) > maxRecentKey {
		return
	}
	p := r.place(k)
	p.key, p.cell = append(p.key[:0], k...), c
}

// update corrects the cell at a key that was written into the tree.
func (r *recent) update(e *entry) {
	if p := r.place(e.key); bytes.Equal(p.key, e.key) {
		p.cell = e.cell
	}
}

// finder holds the slots of rows that the writer has looked up or written, by a hash of their keys. In a
// large database the path to a row through the tree leads over a dozen pieces of memory that no processor
// cache holds, this one over three or four. That the finder has no slot for a key says nothing.
type finder struct {
	slots  *cache[slot]
	schema *builtSchema
}

// maxFound is the number of slots that a finder holds at most. They are 4 MB.
const maxFound = 1 << 19

func newFinder(s *builtSchema) finder {
	return finder{newCache(maxFound, func(s *slot) uint64 { return spread(s.hash) }), s}
}

// hashOf returns a hash of the key of a row. Its last byte is the number of the index: two tables may have
// rows of one type, which must not be taken for each other.
func hashOf(k Key) uint32 { return uint32(maphash.Bytes(hashSeed, k))<<8 | uint32(k[0]) }

// spread returns the evenly distributed part of a hash.
func spread(hash uint32) uint64 { return uint64(hash >> 8) }

// at returns the cell at a whole key and whether it is known.
func (f finder) at(k Key, in *rows) (c cell, known bool) {
	hash, keyOfRow := hashOf(k), f.schema.keyOfRow[k[0]]
	ways := f.slots.at(spread(hash))
	for i := range ways {
		s := ways[i].Load()
		if s == nil || s.hash != hash {
			continue
		}
		c := cell{s, in.at(s.number)}
		if bytes.Equal(keyOfRow(c.row), k) {
			return c, true
		}
	}
	return cell{}, false
}

func (f finder) keep(s *slot) {
	ways := f.slots.at(spread(s.hash))
	for i := range ways {
		if ways[i].Load() == s {
			return
		}
	}
	f.slots.keep(ways, s)
}

// forget removes the slot of a row that was deleted.
func (f finder) forget(s *slot) {
	ways := f.slots.at(spread(s.hash))
	for i := range ways {
		ways[i].CompareAndSwap(s, nil)
	}
}

func (f finder) clear() { f.slots.clear() }
