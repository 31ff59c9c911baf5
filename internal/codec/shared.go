package codec

import (
	"hash/maphash"
	"math/rand/v2"
	"sync/atomic"
)

// Names of modes, states, plugins and jobs come over and over; one string stands for all that are equal. The
// table has one place for all strings of a hash, and now and then a newer one takes it. So it never grows, and what it keeps
// is at most places * longestShared bytes.
const (
	places        = 1 << 12
	longestShared = 64
)

var (
	table     [places]atomic.Pointer[string]
	tableSeed = maphash.MakeSeed()
)

// shared returns a string that is equal to the bytes.
func shared(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if len(b) > longestShared {
		return string(b)
	}
	place := &table[maphash.Bytes(tableSeed, b)%places]
	old := place.Load()
	if old != nil && *old == string(b) {
		return *old
	}
	s := string(b)
	if old == nil || rand.Uint32()%8 == 0 {
		place.Store(&s)
	}
	return s
}
