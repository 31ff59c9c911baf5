// Package clock is the cluster time (package clustertime) as a server reads it, between two entries about
// it. Procedures and loops take times of rows and ages from it. It is apart from package server,
// which neither of them imports.
package clock

import (
	"sync"
	"time"

	"berth/internal/boottime"
	"berth/state/clustertime"
	"berth/structs/cluster"
)

// Cluster is the cluster time on one server, between two entries about it: the row, and the time that has
// passed here since this server saw it. A server that sees the row late is behind, never ahead. It is safe
// for concurrent use. A nil Cluster is the wall clock, for tests without one.
type Cluster struct {
	wall func() time.Time // before the first row
	boot boottime.Clock
	row  func() *cluster.ClusterTime

	mu   sync.Mutex
	seen uint64 // the ModifyIndex of the row
	at   boottime.Instant
}

// New returns the clock of a server. row returns the present row, nil for none.
func New(boot boottime.Clock, row func() *cluster.ClusterTime) *Cluster {
	return &Cluster{wall: time.Now, boot: boot, row: row}
}

// Wall returns the clock of servers without a cluster time.
func Wall(now func() time.Time) *Cluster {
	return &Cluster{wall: now, row: func() *cluster.ClusterTime { return nil }}
}

// Now returns the cluster time: the wall's before the first row.
func (c *Cluster) Now() time.Time {
	row, passed := c.Look()
	switch {
	case c == nil:
		return time.Now()
	case row == nil:
		return c.wall()
	}
	return time.Unix(0, row.Time).Add(passed)
}

// Look returns the row, nil for none, and the time that has passed since this server saw it.
func (c *Cluster) Look() (row *cluster.ClusterTime, passed time.Duration) {
	if c == nil {
		return nil, 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	row = c.row() // under the lock: nobody has seen a newer one meanwhile, so the time never goes back
	if row == nil {
		return nil, 0
	}
	now := c.boot()
	if row.ModifyIndex != c.seen {
		c.seen = row.ModifyIndex
		c.at = now
	}
	return row, now.Sub(c.at)
}

// Corrected is the function of this name, by the present row.
func (c *Cluster) Corrected(stamp int64) int64 {
	row, _ := c.Look()
	return clustertime.Corrected(row, stamp)
}

// Deadline is the function of this name, by the present row.
func (c *Cluster) Deadline(at int64) int64 {
	row, _ := c.Look()
	return clustertime.Deadline(row, at)
}

// Passed reports whether a deadline has passed.
func (c *Cluster) Passed(deadline int64) bool { return c.Deadline(deadline) <= c.Now().UnixNano() }

// After returns the time of a timer for the end of a delay that began at a recorded time. It is zero, at
// once, if the recorded time is in the future.
func (c *Cluster) After(recorded int64, delay time.Duration) time.Time {
	began := c.Corrected(recorded)
	if began > c.Now().Add(clustertime.Tolerance).UnixNano() {
		return time.Time{}
	}
	return c.Timer(time.Unix(0, began).Add(delay))
}

// Until returns the time at which a timer of this process has to fire for a deadline.
func (c *Cluster) Until(deadline int64) time.Time { return c.Timer(time.Unix(0, c.Deadline(deadline))) }

// Timer returns the time at which a timer of this process has to fire for a cluster time. A step of the wall
// clock does not move it.
func (c *Cluster) Timer(at time.Time) time.Time {
	row, _ := c.Look()
	if row == nil {
		return at
	}
	return time.Now().Add(at.Sub(c.Now()))
}
