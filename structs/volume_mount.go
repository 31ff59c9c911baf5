package structs

import "time"

// VolumeMount is a task's `volume_mount {}`.
type VolumeMount struct {
	Volume          string // the alias of the group's volume
	Destination     string // absolute path inside the task, or relative to its directory
	ReadOnly        bool
	PropagationMode string // private (default), host-to-task, bidirectional
	SubPath         string `json:",omitempty" codec:",omitempty"` // the only folder that is seen
	// Snapshot has the commands around a snapshot of the volume, nil for none.
	Snapshot *SnapshotCommands `json:",omitempty" codec:",omitempty"`
}

// SnapshotCommands is `snapshot {}`: the task runs Pre before a snapshot is cut, and Post after it. Timeout
// bounds each of them, and the time between them.
type SnapshotCommands struct {
	Pre     []string
	Post    []string
	Timeout time.Duration
}
