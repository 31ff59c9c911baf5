package storage

import "berth/structs"

// Progress is what a snapshot has reached, or a group of snapshots: the common part of their rows. An object
// is either of them. The times are in UnixNano, and 0 before.
type Progress struct {
	// ExternalID is the plugin's snapshot_id or group_snapshot_id, "" until the object is cut.
	ExternalID string
	State      string
	Reason     string // of SnapshotFailed
	LastError  *structs.OperationError
	Call       *structs.CSICall // of unknown outcome
	// Called is set before the first creation, and cleared once it is certain that it has left nothing.
	Called bool
	// Unanswered reports that a creation was called again before there was an answer to the one before.
	Unanswered  bool
	RequestTime int64
	CutTime     int64 // the plugin's
	ReadyTime   int64
	// Polls counts the answers that the object is not ready. PollTime is the time of the next question.
	Polls    int
	PollTime int64
	// Consistency is what the commands of tasks have made of it: see structs.SnapshotCommands.
	Consistency Consistency
}

// Outcome is the common part of the log entries with the outcome of a call for an object.
type Outcome struct {
	Op          string // as Progress.Next
	Err         *structs.OperationError
	Final       bool        // Err will not change by a repeat
	KeepCall    bool        // the outcome of the noted call is unknown
	PollTime    int64       // as in Progress
	Consistency Consistency // of an object that was cut
}

// The calls that an object can need. Each is an Op, followed by the kind of the object.
const (
	stepCreate = "create "
	stepLearn  = "learn "
	stepDelete = "delete "
)

// IsWanted reports whether the object is being made.
func (p *Progress) IsWanted() bool { return p.State == SnapshotCreating || p.State == SnapshotPending }

// NextFor returns the call that an object of a kind, such as "snapshot", needs; "" for none. One whose
// processing has failed is deleted at its plugin.
func (p *Progress) NextFor(kind string) string {
	switch {
	case p.IsWanted():
		return stepCreate + kind
	case p.State == SnapshotDeleting && p.ExternalID == "":
		return stepLearn + kind
	case p.State == SnapshotDeleting, p.State == SnapshotFailed && p.ExternalID != "":
		return stepDelete + kind
	}
	return ""
}

// MayExist reports whether the plugin may have the object.
func (p *Progress) MayExist() bool { return p.ExternalID != "" || p.Called }

// MayBeCut reports whether an earlier call may have cut the object, or may still cut it. A call that was
// answered with an error cuts nothing any more. One that was answered with ABORTED has an unknown outcome.
func (p *Progress) MayBeCut() bool { return p.ExternalID != "" || p.Call != nil || p.Unanswered }
