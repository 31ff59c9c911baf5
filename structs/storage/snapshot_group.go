package storage

import (
	"slices"

	"berth/structs"
)

// MaxGroupMembers is the most volumes of a group.
const MaxGroupMembers = 64

// The operations of an outcome. A group has the states of a snapshot.
const (
	OpGroupCreate = StepCreate + " " + KindGroup
	OpGroupDelete = StepDelete + " " + KindGroup
	OpGroupLearn  = StepLearn + " " + KindGroup
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
func (g *GroupSnapshot) Next() string { return g.NextFor(KindGroup) }

// CSIGroup is a group snapshot as its plugin describes it. See GroupOfOne for a snapshot.
type CSIGroup struct {
	ID         string // the plugin's
	CreateTime int64  // seconds since 1970
	IsReady    bool
	Snapshots  []*CSISnapshot
}

// GroupOfOne returns a snapshot of a volume, which has the plugin's ID source, as a group.
func GroupOfOne(s *CSISnapshot, source string) *CSIGroup {
	s = new(*s)
	s.ExternalSourceVolumeID = source
	return &CSIGroup{ID: s.ID, CreateTime: s.CreateTime, IsReady: s.IsReady, Snapshots: []*CSISnapshot{s}}
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
