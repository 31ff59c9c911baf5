package storage

import (
	"slices"

	"berth/structs"
)

// The bounds of the health that controllers report.
const (
	// MaxHealthRows is the most rows of a plugin.
	MaxHealthRows = 1000
	// MaxHealthChanges is the most rows that a request changes.
	MaxHealthChanges = 100
)

// VolumeHealth is the row of a volume that the controllers of its plugin do not report as healthy. Key:
// (Namespace, VolumeID).
type VolumeHealth struct {
	Namespace  string
	VolumeID   string
	PluginID   string
	ExternalID string // the plugin's ID of the volume
	// Condition may have only statuses that are not known, and is not abnormal then.
	Condition *VolumeCondition
	Since     int64 // UnixNano of the first record
	structs.Indexes
}

// Key returns the volume of the row.
func (h *VolumeHealth) Key() UsageKey { return UsageKey{Namespace: h.Namespace, VolumeID: h.VolumeID} }

// Says reports whether two rows say the same of the same volume. The other may be nil.
func (h *VolumeHealth) Says(o *VolumeHealth) bool {
	return o != nil && h.Key() == o.Key() && h.PluginID == o.PluginID && h.ExternalID == o.ExternalID &&
		h.Condition.same(o.Condition)
}

// same reports whether two conditions are equal.
func (c *VolumeCondition) same(o *VolumeCondition) bool {
	equal := func(a, b *structs.CSIHealth) bool { return *a == *b }
	return c.Abnormal == o.Abnormal && c.Message == o.Message && slices.EqualFunc(c.Statuses, o.Statuses, equal)
}

// IsEmpty reports whether the condition, which may be nil, says nothing: the volume is healthy.
func (c *VolumeCondition) IsEmpty() bool {
	return c == nil || !c.Abnormal && c.Message == "" && len(c.Statuses) == 0
}

// HealthRecordRequest changes the rows of the volumes of a plugin. It has at most MaxHealthChanges of each.
type HealthRecordRequest struct {
	PluginID string
	Found    []*VolumeHealth
	Gone     []UsageKey
	structs.WriteOptions
}
