package storage

import (
	"slices"

	"berth/structs"
)

// MaxGroupMembers is the most volumes of a group.
const MaxGroupMembers = 64

// The operations of an outcome. A group has the states of a snapshot.
const (
	OpGroupCreate = "create group snapshot"
	OpGroupDelete = "delete group snapshot"
	// OpGroupLearn repeats a creation of unknown outcome to get the IDs of the snapshots to delete.
	OpGroupLearn = "learn group snapshot"
)

// GroupSnapshot is the row of a group snapshot. Key: (Namespace, Name). Each member has a row, too: see
// storage.VolumeSnapshot.Group. The members have the state of the group, and exist as long as it.
type GroupSnapshot struct {
	Namespace string
	Name      string
	ID        string // a UUID: with it the plugin gets a name that no other group has
	PluginID  string
	// VolumeIDs are in the order of the calls, which never changes. The snapshot of the first one has the
	// secrets of all calls.
	VolumeIDs  []string
	Parameters map[string]string // opaque, for CreateVolumeGroupSnapshot
	Progress
	structs.Indexes
}

// Member returns the name of the snapshot of a volume of the group.
func (g *GroupSnapshot) Member(volume string) string { return g.Name + "-" + volume }

// Copy returns a copy, which shares all to which the row refers.
func (g *GroupSnapshot) Copy() *GroupSnapshot { return new(*g) }

// Unsettled reports whether the leader still has a call to make.
func (g *GroupSnapshot) Unsettled() bool { return g.Next() != "" }

// Next returns the call that the row needs, "" for none.
func (g *GroupSnapshot) Next() string { return g.NextFor("group snapshot") }

// CSIGroup is a group snapshot as its plugin describes it.
type CSIGroup struct {
	ID         string // the plugin's
	CreateTime int64  // seconds since 1970
	IsReady    bool
	Snapshots  []*CSISnapshot
}

// Of returns the snapshot of a volume by the plugin's ID of the volume, nil for none.
func (g *CSIGroup) Of(externalVolume string) *CSISnapshot {
	i := slices.IndexFunc(g.Snapshots, func(s *CSISnapshot) bool {
		return s != nil && s.ExternalSourceVolumeID == externalVolume
	})
	if i < 0 {
		return nil
	}
	return g.Snapshots[i]
}

// Fault describes how a description misses the requested volumes, "" if it has one snapshot for each of them,
// with an ID of its own.
func (g *CSIGroup) Fault(externalVolumes []string) string {
	if len(g.Snapshots) != len(externalVolumes) {
		return "has another number of snapshots than of volumes in the request"
	}
	ids := map[string]bool{}
	for _, volume := range externalVolumes {
		s := g.Of(volume)
		if s == nil {
			return "has no snapshot of a volume of the request"
		}
		if s.ID == "" || ids[s.ID] {
			return "has two snapshots with one snapshot_id"
		}
		ids[s.ID] = true
	}
	return ""
}

// SnapshotGroupPutEntry is the log entry that records a requested group with its members.
type SnapshotGroupPutEntry struct {
	Group   *GroupSnapshot
	Members []*VolumeSnapshot
	structs.WriteOptions
}

// SnapshotGroupDeleteEntry is the log entry that begins the deletion of a group.
type SnapshotGroupDeleteEntry struct {
	Name     string
	RowIndex uint64 // CreateIndex of the row
	Force    bool   `json:",omitempty" codec:",omitempty"` // the rows alone
	structs.WriteOptions
}

// SnapshotGroupNoteEntry is the log entry that precedes a call of the plugin.
type SnapshotGroupNoteEntry struct {
	Name     string
	RowIndex uint64 // CreateIndex of the row
	Call     *structs.CSICall
	structs.WriteOptions
}

// SnapshotGroupOutcomeEntry is the log entry with the outcome of a call.
type SnapshotGroupOutcomeEntry struct {
	Name     string
	RowIndex uint64 // CreateIndex of the row
	Outcome
	// Answer is the plugin's to a creation. A final error has none.
	Answer *CSIGroup
	structs.WriteOptions
}
