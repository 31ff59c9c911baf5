package storage

import (
	"berth/structs"
)

// The states of a snapshot. All but SnapshotReady and SnapshotFailed end with a recorded answer of the
// plugin.
const (
	SnapshotCreating = "creating" // CreateSnapshot is wanted, and nothing is known to be cut
	SnapshotPending  = "pending"  // cut; the plugin still works on it, and it cannot be restored yet
	SnapshotReady    = "ready"
	SnapshotFailed   = "failed" // the plugin rejected it for good: Reason has the error
	SnapshotDeleting = "deleting"
)

// The operations of an outcome.
const (
	OpSnapshotCreate = StepCreate + " " + KindSnapshot
	OpSnapshotDelete = StepDelete + " " + KindSnapshot
	OpSnapshotLearn  = StepLearn + " " + KindSnapshot
)

// The bounds.
const (
	MaxSnapshots    = 10_000 // rows
	MaxSnapshotAsks = 64     // snapshots that one request asks for
)

// VolumeSnapshot is the row of a snapshot. Key: (Namespace, Name). It outlives its volume.
type VolumeSnapshot struct {
	Namespace   string
	Name        string
	ID          string // a UUID: with it the plugin gets a name that no other snapshot has
	VolumeID    string
	VolumeIndex uint64 // CreateIndex of the volume
	PluginID    string
	// SourceExternalID is the plugin's volume_id.
	SourceExternalID string
	Topologies       []*structs.CSITopology // the volume's; none: everywhere
	SizeBytes        int64                  // the least size of a restored volume; 0: unknown
	Parameters       map[string]string      // opaque, for CreateSnapshot
	// SecretsFrom and SealedSecrets are as in structs.CSIVolume, and sealed for the place of the volume.
	SecretsFrom   string
	SealedSecrets *structs.Sealed `json:"-" codec:"SealedSecrets,omitempty"`
	Schedule      string          // that has asked for it, "" for none
	// Group names the group snapshot of which it is a member, "" for none. The group has the calls.
	Group string `json:",omitempty" codec:",omitempty"`
	// AccessibleTopologies are those in which a volume can be made from it, as the plugin has answered; none:
	// everywhere (CSI spec, Snapshot.accessible_topology).
	AccessibleTopologies []*structs.CSITopology `json:",omitempty" codec:",omitempty"`
	Progress
	structs.Indexes
}

// The values of Consistency.Level.
const (
	// AppConsistent: each running task with commands was quiesced while the snapshot was cut.
	AppConsistent = "application"
	// CrashConsistent: it may have the files as after a power failure, although a task has commands.
	CrashConsistent = "crash"
)

// Consistency is what is known of the files in a snapshot. The zero value is for a volume whose tasks have no
// commands: the files are as after a power failure.
type Consistency struct {
	Level  string
	Reason string // why it is CrashConsistent, or what has failed after the cut
}

// Copy returns a copy, which shares all to which the row refers.
func (s *VolumeSnapshot) Copy() *VolumeSnapshot { return new(*s) }

// Unsettled reports whether the leader still has a call to make.
func (s *VolumeSnapshot) Unsettled() bool { return s.Next() != "" }

// Next returns the call that the row needs, "" for none. The row of the group has the calls for a member of a
// group.
func (s *VolumeSnapshot) Next() string {
	if s.Group != "" {
		return ""
	}
	return s.NextFor(KindSnapshot)
}

// NeedsVolume reports whether the volume has to exist for a call that may still be made for the snapshot, or
// for its group: the creation is repeated until the plugin has finished it.
func (s *VolumeSnapshot) NeedsVolume() bool {
	return s.State == SnapshotCreating || s.State == SnapshotPending ||
		s.State == SnapshotDeleting && s.ExternalID == ""
}

// SnapshotPutEntry is the log entry that records requested snapshots.
type SnapshotPutEntry struct {
	Snapshots []*VolumeSnapshot
	structs.WriteOptions
}
