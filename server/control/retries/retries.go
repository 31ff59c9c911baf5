// Package retries decides when the leader repeats a call that failed. It reads only the row, so a new leader
// repeats the call at the same time.
//
// The rows have times of the wall clock of a leader. That clock may be wrong, and may be set right or become
// wrong meanwhile. So a recorded time that is far ahead of the clock of the reader delays nothing: the clock
// may take days to get there.
package retries

import (
	"sync"
	"time"

	"berth/internal/backoff"
	"berth/structs"
)

// Final is the delay after a denied call: an operator may grant the permission meanwhile.
const Final = time.Minute

// Lasting reports whether a repeat of the call does not change an error of a kind. Internal is not such a
// kind: a plugin also answers it if the outcome is unknown. Nor is a kind of a later version.
func Lasting(k structs.Kind) bool {
	switch k {
	case structs.KindInvalid, structs.KindDenied, structs.KindNotFound:
		return true
	case structs.KindConflict, structs.KindPrecondition:
		return true
	}
	return false
}

// Due returns when to repeat a call that failed. It is zero, at once, without a failure.
func Due(b backoff.Backoff, e *structs.OperationError) time.Time {
	switch {
	case e == nil:
		return time.Time{}
	case e.RetryTime > 0:
		return After(e.Time, time.Duration(e.RetryTime-e.Time))
	}
	return After(e.Time, delay(b, e))
}

// Time returns the time (UnixNano) of the next attempt after a failed call of a node or a controller.
func Time(b backoff.Backoff, e *structs.OperationError) int64 { return e.Time + int64(delay(b, e)) }

func delay(b backoff.Backoff, e *structs.OperationError) time.Duration {
	if Lasting(e.Kind) {
		return Final
	}
	return b.Delay(e.Attempts)
}

// ControllerTime is Time for a failed call of a controller. A wrong request is not sent again unchanged (CSI
// spec, "Error Scheme").
func ControllerTime(b backoff.Backoff, e *structs.OperationError) int64 {
	switch {
	case e.Kind == structs.KindInvalid,
		e.Kind == structs.KindConflict,
		e.Code == "Unimplemented":
		return structs.NeverTry
	case e.Kind == structs.KindDenied:
		return e.Time + int64(Final)
	}
	return e.Time + int64(b.Delay(e.Attempts))
}

// After returns the time after a delay that began at a recorded time (UnixNano). It is zero, at once, if that
// time is too far ahead of the clock.
func After(recorded int64, delay time.Duration) time.Time {
	if Ahead(recorded) {
		return time.Time{}
	}
	return time.Unix(0, recorded).Add(delay)
}

// mostSeen bounds what Seen remembers.
const mostSeen = 10_000

// Seen remembers when this server first saw a recorded time that is ahead of the clock. What was recorded had
// happened by then. A server that forgets sees it again later. It is safe for concurrent use.
type Seen struct {
	mu    sync.Mutex
	first map[int64]time.Time
}

// First returns when this server first saw a recorded time (UnixNano).
func (s *Seen) First(recorded int64) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	first, known := s.first[recorded]
	if known {
		return first
	}
	if s.first == nil || len(s.first) >= mostSeen {
		s.first = map[int64]time.Time{}
	}
	first = time.Now()
	s.first[recorded] = first
	return first
}

// skew is by how much the clocks of servers may differ without a fault.
const skew = time.Minute

// Ahead reports whether a recorded time (UnixNano) is too far ahead of the clock: that of the leader that
// recorded it was wrong, or this one is.
func Ahead(recorded int64) bool { return recorded > time.Now().Add(skew).UnixNano() }
