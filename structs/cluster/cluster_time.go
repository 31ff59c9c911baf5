package cluster

import (
	"fmt"
	"time"

	"berth/structs"
)

// ClusterTime is the row of the time by which the servers count ages: see package clustertime. There is at
// most one, from the first leader on that has this level.
type ClusterTime struct {
	Time  int64         // UnixNano, at the last entry
	Ahead time.Duration // by which the clock of the leader was ahead then; negative: behind
	// Since is the last time before the clock of the leader was ahead by more than the tolerance; 0: it is
	// not.
	Since int64
	// Agreed is the time from which on most servers agree with that clock; 0: they do not, or it differs by no
	// more than the tolerance.
	Agreed int64
	Jumps  []ClockJump // the last ones, the oldest first
	// Stored are the last entries that the servers have acknowledged, in the order of their IDs.
	Stored []StoredIndex
	structs.Indexes
}

// WrongClock is the row of a server whose wall clock differs from the cluster time.
type WrongClock struct {
	ServerID string
	Server   string        // its name
	Ahead    time.Duration // of the cluster time; negative: behind
	structs.Indexes
}

// String says how the clock differs.
func (c WrongClock) String() string {
	way := "ahead of"
	if c.Ahead < 0 {
		way = "behind"
	}
	return fmt.Sprintf("%s %s the cluster time", c.Ahead.Abs().Round(time.Second), way)
}

// StoredIndex is the last entry of the Raft log that a server is known to have on its disk. The leader writes
// it down with each entry about the time, for the leaders after it.
type StoredIndex struct {
	Server string // its ID
	Index  uint64
}

// ClockJump is a step of the cluster time to the clock of a leader.
type ClockJump struct {
	Since int64 // the cluster time before the clocks were ahead
	At    int64 // the cluster time before the step
	By    time.Duration
}

// ClusterTimeRequest is the payload of the log entry that advances the cluster time.
type ClusterTimeRequest struct {
	Clock    ClusterTime
	RowIndex uint64       // the ModifyIndex of the row before, 0 for none
	Wrong    []WrongClock // all servers whose clocks differ
	structs.WriteOptions
}

// ClockGet reads the clocks of the servers, as the leader sees them.
var ClockGet = structs.Read[structs.QueryRequest, ClockResponse]("Operator.Clock")

// ClockResponse has the cluster time and the wall clocks of the servers.
type ClockResponse struct {
	ClusterTime *ClusterTime // nil: the servers are too old for it
	Now         int64        // of the cluster time, UnixNano
	Wall        int64        // of the leader, UnixNano
	Quarantine  time.Duration
	Servers     []*ServerClock
	structs.QueryMeta
}

// ServerClock is the wall clock of a server.
type ServerClock struct {
	ID      string
	Name    string
	Address string
	Leader  bool
	Voter   bool          // its clock counts among most servers' clocks
	Ahead   time.Duration // of the wall clock of the leader; negative: behind
	Fault   string        // why it is not known; "": it is
}

// Right reports whether the clock of a server is known, and within a tolerance of the leader's.
func (s *ServerClock) Right(tolerance time.Duration) bool {
	return s.Fault == "" && s.Ahead.Abs() <= tolerance
}

// ClockAccept sets the cluster time to the leader's wall clock at once.
var ClockAccept = structs.Write[ClockAcceptRequest, structs.Empty]("Operator.ClockAccept")

// ClockAcceptRequest has nothing to say: the servers compare their clocks themselves.
type ClockAcceptRequest struct {
	structs.WriteOptions
}
