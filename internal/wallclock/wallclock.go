// Package wallclock reads times of the wall clock that a process has recorded, such as the time of a call.
// The clock may have been wrong then, or is now: somebody sets it by hand, or a machine starts without the
// right time. A recorded time that is far ahead may be days away, so nothing waits for it. The package is
// small because nodes and leaders both read such times.
package wallclock

import (
	"sync"
	"time"
)

// skew is by how much the clocks of machines may differ without a fault.
const skew = time.Minute

// Ahead reports whether a recorded time (UnixNano) is too far ahead of the clock: the clock with which it
// was recorded was wrong, or this one is.
func Ahead(recorded int64) bool { return recorded > time.Now().Add(skew).UnixNano() }

// mostSeen bounds what Seen remembers.
const mostSeen = 10_000

// Seen remembers when this process first saw a recorded time that is ahead of the clock: the recorded call
// was made before that. A process that forgets the time sees it again later. Seen is safe for concurrent use.
type Seen struct {
	mu    sync.Mutex
	first map[int64]time.Time
}

// Time returns a recorded time (UnixNano). One that is too far ahead of now becomes the time at which this
// process first saw it.
func (s *Seen) Time(recorded int64, now time.Time) time.Time {
	if recorded <= now.Add(skew).UnixNano() {
		return time.Unix(0, recorded)
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	first, known := s.first[recorded]
	if known {
		return first
	}
	if s.first == nil || len(s.first) >= mostSeen {
		s.first = map[int64]time.Time{}
	}
	first = now
	s.first[recorded] = first
	return first
}
