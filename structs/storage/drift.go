package storage

import (
	"cmp"
	"slices"
	"time"

	"berth/structs"
)

// The kinds of differences. Two complete lists in a row have each one.
const (
	// DriftMissingVolume is a ready volume that its plugin does not list.
	DriftMissingVolume = "missing_volume"
	// DriftStrayVolume is a volume of the plugin without a row. These are only counted.
	DriftStrayVolume = "stray_volume"
	// DriftMissingAttachment is a volume that is attached by its row, and not by the list.
	DriftMissingAttachment = "missing_attachment"
	// DriftStrayAttachment is a volume that is attached to a node of the cluster by the list, and has no row of
	// it.
	DriftStrayAttachment = "stray_attachment"
	// DriftUnknownNode is a volume that the list shows at a node that is none of the cluster.
	DriftUnknownNode = "unknown_node"
)

// DriftKinds has all kinds.
var DriftKinds = []string{
	DriftMissingVolume, DriftStrayVolume, DriftMissingAttachment, DriftStrayAttachment, DriftUnknownNode}

// The bounds.
const (
	// MaxDrifts is the most rows of a plugin. The summary counts all differences.
	MaxDrifts = 1000
	// MaxDriftChanges is the most rows that a request changes.
	MaxDriftChanges = 250
	// DriftRepairAgain is the least time between two repairs of a difference.
	DriftRepairAgain = time.Hour
)

// VolumeDrift is the row of one difference. Key: (PluginID, Kind, ExternalID, ExternalNodeID).
type VolumeDrift struct {
	PluginID       string
	Kind           string
	ExternalID     string // the plugin's ID of the volume
	ExternalNodeID string `json:",omitempty" codec:",omitempty"` // "" for a volume
	Namespace      string
	VolumeID       string
	// NodeID is "" for a volume and an unknown node.
	NodeID string `json:",omitempty" codec:",omitempty"`
	Since  int64  // UnixNano of the first record
	// Repair is the last repair with its reason, made at RepairTime (UnixNano).
	Repair     string `json:",omitempty" codec:",omitempty"`
	RepairTime int64  `json:",omitempty" codec:",omitempty"`
	structs.Indexes
}

// DriftKey names a difference.
type DriftKey struct {
	PluginID       string
	Kind           string
	ExternalID     string
	ExternalNodeID string
}

// Key returns the key of the row.
func (d *VolumeDrift) Key() DriftKey {
	return DriftKey{
		PluginID:       d.PluginID,
		Kind:           d.Kind,
		ExternalID:     d.ExternalID,
		ExternalNodeID: d.ExternalNodeID,
	}
}

// Compare orders keys as the table does.
func (k DriftKey) Compare(o DriftKey) int {
	return cmp.Or(
		cmp.Compare(k.PluginID, o.PluginID),
		cmp.Compare(k.Kind, o.Kind),
		cmp.Compare(k.ExternalID, o.ExternalID),
		cmp.Compare(k.ExternalNodeID, o.ExternalNodeID))
}

// Same reports whether two differences are about the same volume and node. The other may be nil.
func (d *VolumeDrift) Same(o *VolumeDrift) bool {
	return o != nil && d.Key() == o.Key() && d.Namespace == o.Namespace && d.VolumeID == o.VolumeID &&
		d.NodeID == o.NodeID
}

// DriftSummary is the row with the numbers of the differences of a plugin. Key: (PluginID). It is there only
// while there is a difference or a fault.
type DriftSummary struct {
	PluginID string
	Counts   map[string]int // by kind
	// Fault is the reason for which the last list was not complete, "" if it was.
	Fault string `json:",omitempty" codec:",omitempty"`
	Time  int64  // UnixNano of the list that changed the row
	structs.Indexes
}

// IsEmpty reports whether the summary says nothing.
func (s *DriftSummary) IsEmpty() bool {
	some := func(kind string) bool { return s.Counts[kind] != 0 }
	return s.Fault == "" && !slices.ContainsFunc(DriftKinds, some)
}

// Says reports whether two summaries have the same numbers and faults. The other may be nil.
func (s *DriftSummary) Says(o *DriftSummary) bool {
	if o == nil {
		return s.IsEmpty()
	}
	differs := func(kind string) bool { return s.Counts[kind] != o.Counts[kind] }
	return s.Fault == o.Fault && !slices.ContainsFunc(DriftKinds, differs)
}

// DriftRecordRequest changes the differences of a plugin. It has at most MaxDriftChanges of each.
type DriftRecordRequest struct {
	PluginID string
	Found    []*VolumeDrift
	Gone     []DriftKey
	Summary  *DriftSummary // nil: as it is
	structs.WriteOptions
}

// DriftRepairRequest repairs a difference of an attachment, if the rows still have it and the settings of the
// plugin allow it.
type DriftRepairRequest struct {
	DriftKey
	structs.WriteOptions
}

// DriftList lists the differences of the volumes of a namespace, by plugin, kind, volume and node.
var DriftList = structs.Read[DriftListRequest, DriftListResponse]("CSIVolume.Drift")

// DriftListRequest selects differences. Empty fields select all.
type DriftListRequest struct {
	PluginID string
	VolumeID string
	structs.QueryOptions
}

// DriftListResponse has the differences.
type DriftListResponse struct {
	Differences []*VolumeDrift
	structs.QueryMeta
}

// DriftSummaries lists the summaries of all plugins that have one.
var DriftSummaries = structs.Read[structs.QueryRequest, DriftSummariesResponse]("CSIPlugin.Drift")

// DriftSummariesResponse has the summaries by plugin.
type DriftSummariesResponse struct {
	Summaries []*DriftSummary
	structs.QueryMeta
}
