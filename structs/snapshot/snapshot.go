package snapshot

import (
	"berth/structs"
)

// The states of a snapshot. All but Ready and Failed end with a recorded answer of the plugin.
const (
	Creating = "creating" // CreateSnapshot is wanted, and nothing is known to be cut
	Pending  = "pending"  // cut; the plugin still works on it, and it cannot be restored yet
	Ready    = "ready"
	Failed   = "failed" // the plugin rejected it for good: Reason has the error
	Deleting = "deleting"
)

// The operations of an outcome.
const (
	OpCreate = "create snapshot"
	OpDelete = "delete snapshot"
	// OpLearn repeats a creation of unknown outcome to get the ID of the snapshot to delete.
	OpLearn = "learn snapshot"
)

// The bounds.
const (
	MaxPerNamespace = 10_000 // rows
	MaxAsks         = 64     // snapshots that one request asks for
)

// VolumeSnapshot is the row of a snapshot. Key: (Namespace, Name). It outlives its volume.
type VolumeSnapshot struct {
	Namespace   string `level:"2"`
	Name        string `level:"2"`
	ID          string `level:"2"` // a UUID: with it the plugin gets a name that no other snapshot has
	VolumeID    string `level:"2"`
	VolumeIndex uint64 `level:"2"` // CreateIndex of the volume
	PluginID    string `level:"2"`
	// SourceExternalID and ExternalID are the plugin's volume_id and snapshot_id. ExternalID is "" until the
	// snapshot is cut.
	SourceExternalID string                  `level:"2"`
	ExternalID       string                  `level:"2"`
	Topologies       []*structs.CSITopology  `level:"2"` // those of the volume; none: everywhere
	State            string                  `level:"2"`
	Reason           string                  `level:"2"` // of Failed
	LastError        *structs.OperationError `level:"2"`
	Call             *structs.CSICall        `level:"2"` // of unknown outcome
	// Called is set before the first creation, and cleared once it is certain that it has left nothing.
	Called bool `level:"2"`
	// Unanswered reports that a creation was called again before there was an answer to the one before.
	Unanswered bool              `level:"2"`
	SizeBytes  int64             `level:"2"` // the least size of a restored volume; 0: unknown
	Parameters map[string]string `level:"2"` // opaque, for CreateSnapshot
	// SecretsFrom and SealedSecrets are as in structs.CSIVolume, and sealed for the place of the volume.
	SecretsFrom   string          `level:"2"`
	SealedSecrets *structs.Sealed `json:"-" codec:"SealedSecrets,omitempty" level:"2"`
	// The times are in UnixNano, and 0 before. CutTime is the plugin's.
	RequestTime int64 `level:"2"`
	CutTime     int64 `level:"2"`
	ReadyTime   int64 `level:"2"`
	// Polls counts the answers that the snapshot is not ready. PollTime is the time of the next question.
	Polls    int    `level:"2"`
	PollTime int64  `level:"2"`
	Schedule string `level:"2"` // that has asked for it, "" for none
	// Group names the group snapshot of which it is a member, "" for none. The calls are those of the group.
	Group string `json:",omitempty" codec:",omitempty" level:"2"`
	// Consistency is what the commands of tasks have made of it: see structs.SnapshotCommands.
	Consistency Consistency `level:"2"`
	// AccessibleTopologies are those in which a volume can be made from it, as the plugin has answered; none:
	// everywhere (CSI spec, Snapshot.accessible_topology).
	AccessibleTopologies []*structs.CSITopology `json:",omitempty" codec:",omitempty" level:"2"`
	structs.Indexes      `level:"2"`
}

// The values of Consistency.Level.
const (
	// AppConsistent: each running task with commands was quiesced while the snapshot was cut.
	AppConsistent = "application"
	// CrashConsistent: it may have the files as after a power failure, although a task has commands.
	CrashConsistent = "crash"
)

// Consistency is what is known of the files in a snapshot. The zero value is that of a volume whose tasks
// have no commands: the files are as after a power failure.
type Consistency struct {
	Level  string `level:"2"`
	Reason string `level:"2"` // why it is CrashConsistent, or what has failed after the cut
}

// Copy returns a copy, which shares all to which the row refers.
func (s *VolumeSnapshot) Copy() *VolumeSnapshot { return new(*s) }

// Unsettled reports whether the leader still has a call to make. A snapshot whose processing has failed is
// deleted at its plugin.
func (s *VolumeSnapshot) Unsettled() bool { return s.Next() != "" }

// Next returns the call that the row needs, "" for none.
func (s *VolumeSnapshot) Next() string {
	switch {
	case s.Group != "":
		return "" // the row of the group has its calls
	case s.State == Creating || s.State == Pending:
		return OpCreate
	case s.State == Deleting && s.ExternalID == "":
		return OpLearn
	case s.State == Deleting, s.State == Failed && s.ExternalID != "":
		return OpDelete
	}
	return ""
}

// NeedsVolume reports whether the volume has to exist for a call that may still be made for the snapshot, or
// for its group: the creation is repeated until the plugin has finished it.
func (s *VolumeSnapshot) NeedsVolume() bool {
	return s.State == Creating || s.State == Pending || s.State == Deleting && s.ExternalID == ""
}

// MayExist reports whether the plugin may have a snapshot of the row.
func (s *VolumeSnapshot) MayExist() bool { return s.ExternalID != "" || s.Called }

// MayBeCut reports whether an earlier call may have cut the snapshot, or may still cut it. A call that was
// answered with an error cuts nothing any more. One that was answered with ABORTED has an unknown outcome.
func (s *VolumeSnapshot) MayBeCut() bool { return s.ExternalID != "" || s.Call != nil || s.Unanswered }

// SnapshotPutEntry is the log entry that records requested snapshots.
type SnapshotPutEntry struct {
	Snapshots            []*VolumeSnapshot `level:"2"`
	structs.WriteOptions `level:"2"`
}

// SnapshotDeleteEntry is the log entry that begins the deletion of a snapshot.
type SnapshotDeleteEntry struct {
	Name     string `level:"2"`
	RowIndex uint64 `level:"2"` // CreateIndex of the row
	// SealedSecrets replace those of the row, nil for none.
	SealedSecrets        *structs.Sealed `json:"-" codec:"SealedSecrets,omitempty" level:"2"`
	structs.WriteOptions `level:"2"`
}

// SnapshotNoteEntry is the log entry that precedes a call of the plugin.
type SnapshotNoteEntry struct {
	Name                 string           `level:"2"`
	RowIndex             uint64           `level:"2"` // CreateIndex of the row
	Call                 *structs.CSICall `level:"2"`
	structs.WriteOptions `level:"2"`
}

// SnapshotOutcomeEntry is the log entry with the outcome of a call.
type SnapshotOutcomeEntry struct {
	Name     string                  `level:"2"`
	RowIndex uint64                  `level:"2"` // CreateIndex of the row
	Op       string                  `level:"2"` // OpCreate, OpLearn or OpDelete
	Err      *structs.OperationError `level:"2"`
	Final    bool                    `level:"2"` // Err will not change by a repeat
	KeepCall bool                    `level:"2"` // the outcome of the noted call is unknown
	// Answer is that of the plugin to a creation. A final error has none.
	Answer               *CSISnapshot `level:"2"`
	PollTime             int64        `level:"2"` // as in VolumeSnapshot
	Consistency          Consistency  `level:"2"` // of a snapshot that was cut
	structs.WriteOptions `level:"2"`
}
