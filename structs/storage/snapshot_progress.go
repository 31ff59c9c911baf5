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

// The kinds of objects.
const (
	KindSnapshot = "snapshot"
	KindGroup    = "group snapshot"
)

// The steps of an object, for which its plugin is called.
const (
	StepCreate = "create"
	StepLearn  = "learn" // repeats a creation of unknown outcome to get the IDs to delete
	StepDelete = "delete"
)

// Op returns the operation of a step of an object of a kind.
func Op(step, kind string) string { return step + " " + kind }

// Reached returns the progress of a row.
func (p *Progress) Reached() *Progress { return p }

// IsWanted reports whether the object is being made.
func (p *Progress) IsWanted() bool { return p.State == SnapshotCreating || p.State == SnapshotPending }

// Step returns the step that the object needs, "" for none. One whose processing has failed is deleted at its
// plugin.
func (p *Progress) Step() string {
	switch {
	case p.IsWanted():
		return StepCreate
	case p.State == SnapshotDeleting && p.ExternalID == "":
		return StepLearn
	case p.State == SnapshotDeleting, p.State == SnapshotFailed && p.ExternalID != "":
		return StepDelete
	}
	return ""
}

// NextFor returns the operation that the object of a kind needs, "" for none.
func (p *Progress) NextFor(kind string) string {
	if p.Step() == "" {
		return ""
	}
	return Op(p.Step(), kind)
}

// MayExist reports whether the plugin may have the object.
func (p *Progress) MayExist() bool { return p.ExternalID != "" || p.Called }

// MayBeCut reports whether an earlier call may have cut the object, or may still cut it. A call that was
// answered with an error cuts nothing any more. One that was answered with ABORTED has an unknown outcome.
func (p *Progress) MayBeCut() bool { return p.ExternalID != "" || p.Call != nil || p.Unanswered }

// SnapshotDeleteEntry is the log entry that begins the deletion of an object.
type SnapshotDeleteEntry struct {
	Name     string
	RowIndex uint64 // CreateIndex of the row
	// SealedSecrets replace those of the row, or of a group's first member, nil for none.
	SealedSecrets *structs.Sealed `json:"-" codec:"SealedSecrets,omitempty"`
	Force         bool            `json:",omitempty" codec:",omitempty"` // the rows alone
	structs.WriteOptions
}

// SnapshotNoteEntry is the log entry that precedes a call of the plugin for an object.
type SnapshotNoteEntry struct {
	Name     string
	RowIndex uint64 // CreateIndex of the row
	Call     *structs.CSICall
	structs.WriteOptions
}

// SnapshotOutcomeEntry is the log entry with the outcome of a call for an object.
type SnapshotOutcomeEntry struct {
	Name     string
	RowIndex uint64 // CreateIndex of the row
	Outcome
	// Answer is the plugin's to a creation. That about a snapshot is a group of one. A final error has none.
	Answer *CSIGroup
	structs.WriteOptions
}
