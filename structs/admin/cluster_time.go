package admin

import (
	"time"

	"berth/structs"
)

// ClusterTime is the row of the time by which the servers count ages: see package clustertime. There is at
// most one, from the first leader on that has this level.
type ClusterTime struct {
	Time  int64         `level:"2"` // UnixNano, at the last entry
	Ahead time.Duration `level:"2"` // by which the clock of the leader was ahead then; negative: behind
	// Since is the last time before the clock of the leader was ahead by more than the tolerance; 0: it is
	// not.
	Since int64 `level:"2"`
	// Agreed is the time from which on most servers agree with that clock; 0: they do not.
	Agreed          int64       `level:"2"`
	Jumps           []ClockJump `level:"2"` // the last ones, the oldest first
	structs.Indexes `level:"2"`
}

// ClockJump is a step of the cluster time to the clock of a leader.
type ClockJump struct {
	Since int64         `level:"2"` // the cluster time before the clocks were ahead
	At    int64         `level:"2"` // the cluster time before the step
	By    time.Duration `level:"2"`
}

// ClusterTimeRequest is the payload of the log entry that advances the cluster time.
type ClusterTimeRequest struct {
	Clock                ClusterTime `level:"2"`
	RowIndex             uint64      `level:"2"` // the ModifyIndex of the row before, 0 for none
	structs.WriteOptions `level:"2"`
}
