// Package boottime reads the clock that also counts the time in which the machine was suspended.
//
// Go's monotonic clock, and every timer of Go, stops during a suspend. A machine that wakes after an hour
// would take a lease of ten seconds for one that has just begun. The ends of leases are therefore in
// CLOCK_BOOTTIME. A step of the wall clock does not change it. It says nothing about other machines, and
// nothing after a reboot. RenewAfter has the rule by which tokens and certificates are renewed. The package
// is small because nodes, servers and the supervisor of tasks all read this clock.
package boottime

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Instant is a point in time of this boot: the time since the machine started, with every suspend. The zero
// Instant is the start of the machine. It serves as "never".
type Instant time.Duration

// Clock returns the present. Tests replace Now by a clock of their own.
type Clock func() Instant

// Now reads CLOCK_BOOTTIME.
func Now() Instant {
	var t unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t)
	if err != nil {
		panic(fmt.Sprintf("reading CLOCK_BOOTTIME: %v", err)) // every supported kernel has it
	}
	return Instant(t.Nano())
}

// Monotonic returns a clock that counts from a day after the start of the machine by time.Now. It is the
// clock of tests whose time is virtual.
func Monotonic() Clock {
	begin := time.Now()
	return func() Instant {
		return Instant(24*time.Hour + time.Since(begin))
	}
}

// Add returns the instant d later.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// Sub returns the time from an earlier instant to this one.
func (i Instant) Sub(earlier Instant) time.Duration { return time.Duration(i - earlier) }

// IsZero reports whether the instant is the zero one.
func (i Instant) IsZero() bool { return i == 0 }
