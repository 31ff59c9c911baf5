package mvcc

import (
	"hash/maphash"
	"sync/atomic"
)

// cache holds a bounded number of values by their hashes. A value can be in one of few places, and a later
// value replaces an earlier one there. Concurrent use is safe: the worst result of a race is that a value is
// not shared.
type cache[T any] struct {
	places atomic.Pointer[[]atomic.Pointer[T]]
	kept   atomic.Int64 // since the cache last grew
	most   int
	hash   func(*T) uint64
}

const (
	firstPlaces = 256
	ways        = 4 // places that a value can be in
)

// newCache returns a cache that grows to most places, a power of two.
func newCache[T any](most int, hash func(*T) uint64) *cache[T] {
	c := &cache[T]{most: most, hash: hash}
	c.clear()
	return c
}

func (c *cache[T]) clear() {
	places := make([]atomic.Pointer[T], min(firstPlaces, c.most))
	c.places.Store(&places)
	c.kept.Store(0)
}

// at returns the places in which a value with the hash can be.
func (c *cache[T]) at(hash uint64) []atomic.Pointer[T] { return waysOf(*c.places.Load(), hash) }

func waysOf[T any](places []atomic.Pointer[T], hash uint64) []atomic.Pointer[T] {
	first := hash & uint64(len(places)-ways)
	return places[first : first+ways : first+ways]
}

// keep stores a value in one of its places.
func (c *cache[T]) keep(at []atomic.Pointer[T], v *T) *T {
	kept := c.kept.Add(1)
	storeIn(at, v, int(kept)%ways)
	places := c.places.Load()
	if kept > int64(len(*places)/2) && len(*places) < c.most {
		c.grow(places)
	}
	return v
}

// storeIn stores a value in a free place, or else in the place of the victim.
func storeIn[T any](at []atomic.Pointer[T], v *T, victim int) {
	for i := range at {
		if at[i].Load() == nil {
			victim = i
			break
		}
	}
	at[victim].Store(v)
}

// grow doubles the number of places. A value that is stored concurrently in an old place may be lost.
func (c *cache[T]) grow(old *[]atomic.Pointer[T]) {
	places := make([]atomic.Pointer[T], 2*len(*old))
	for i := range *old {
		if v := (*old)[i].Load(); v != nil {
			storeIn(waysOf(places, c.hash(v)), v, 0)
		}
	}
	if c.places.CompareAndSwap(old, &places) {
		c.kept.Store(0)
	}
}

// hashSeed differs in each process, so that no client can choose values whose hashes collide.
var hashSeed = maphash.MakeSeed()
