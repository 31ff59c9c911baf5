package state

import (
	"hash/maphash"
	"sync/atomic"
)

// cache remembers values, each in one of the few places that its hash names: what comes later to a place
// drives out what was there. So it never holds more than it has places, and forgets what nobody asks for. Many
// goroutines may use it at once: all that comes of a race between them is a value that two do not share.
type cache[T any] struct {
	places atomic.Pointer[[]atomic.Pointer[T]]
	kept   atomic.Int64 // since it last grew
	most   int
	hash   func(*T) uint64
}

const (
	firstPlaces = 256
	ways        = 4 // places a value may be in
)

// newCache grows to most places, a power of two.
func newCache[T any](most int, hash func(*T) uint64) *cache[T] {
	c := &cache[T]{most: most, hash: hash}
	c.clear()
	return c
}

// clear forgets all.
func (c *cache[T]) clear() {
	places := make([]atomic.Pointer[T], min(firstPlaces, c.most))
	c.places.Store(&places)
	c.kept.Store(0)
}

// at are the places where a value with the hash would be.
func (c *cache[T]) at(hash uint64) []atomic.Pointer[T] { return waysOf(*c.places.Load(), hash) }

func waysOf[T any](places []atomic.Pointer[T], hash uint64) []atomic.Pointer[T] {
	first := hash & uint64(len(places)-ways)
	return places[first : first+ways : first+ways]
}

// keep puts a value into one of its places.
func (c *cache[T]) keep(at []atomic.Pointer[T], v *T) *T {
	kept := c.kept.Add(1)
	placeIn(at, v, int(kept)%ways)
	if places := c.places.Load(); kept > int64(len(*places)/2) && len(*places) < c.most {
		c.grow(places)
	}
	return v
}

// placeIn takes a place that is free, or the one of the victim.
func placeIn[T any](at []atomic.Pointer[T], v *T, victim int) {
	for i := range at {
		if at[i].Load() == nil {
			victim = i
			break
		}
	}
	at[victim].Store(v)
}

// grow doubles the places. What another puts into an old one meanwhile may be forgotten.
func (c *cache[T]) grow(old *[]atomic.Pointer[T]) {
	places := make([]atomic.Pointer[T], 2*len(*old))
	for i := range *old {
		if v := (*old)[i].Load(); v != nil {
			placeIn(waysOf(places, c.hash(v)), v, 0)
		}
	}
	if c.places.CompareAndSwap(old, &places) {
		c.kept.Store(0)
	}
}

// seed is another in each process: nobody can choose texts that drive each other out.
var seed = maphash.MakeSeed()

func hashText(t *string) uint64 { return maphash.String(seed, *t) }

func hashValue[T comparable](v *T) uint64 { return maphash.Comparable(seed, *v) }

// hashMap does not depend on the order, nor on being nil or empty.
func hashMap(m map[string]string) (sum uint64) {
	for k, v := range m {
		sum += mixed(maphash.String(seed, k), maphash.String(seed, v))
	}
	return sum
}

// mixed is a hash of a pair by theirs.
func mixed(a, b uint64) uint64 {
	h := (a ^ b>>31 ^ b<<33) * 0x9e3779b97f4a7c15
	return h ^ h>>29
}
