package storage

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"berth/structs"
)

// MaxUsageNodes bounds the nodes that one request asks.
const MaxUsageNodes = 1000

// The bounds of the time between two measurements of a volume, and its default.
const (
	DefaultUsageInterval = time.Minute
	MinUsageInterval     = 10 * time.Second
	MaxUsageInterval     = time.Hour
)

// The bounds of the time between two trims of a volume.
const (
	MinTrim = time.Hour
	MaxTrim = 720 * time.Hour
)

// UsageAmount is the use of a volume in one unit. Used and Available may be less than Total together: a file
// system keeps a part for root.
type UsageAmount struct {
	Total     int64 `json:",omitempty" codec:",omitempty"`
	Used      int64 `json:",omitempty" codec:",omitempty"`
	Available int64 `json:",omitempty" codec:",omitempty"`
}

// Percent returns the used part of what users can have, from 0 to 100, 0 for an unknown total.
func (a *UsageAmount) Percent() float64 {
	if a == nil || a.Used+a.Available <= 0 {
		return 0
	}
	return 100 * float64(a.Used) / float64(a.Used+a.Available)
}

// VolumeCondition is the health of a volume as its plugin reports it.
type VolumeCondition struct {
	// Abnormal: the plugin knows an adverse condition that the CSI specification has, too.
	Abnormal bool   `json:",omitempty" codec:",omitempty"`
	Message  string `json:",omitempty" codec:",omitempty"`
	// Statuses are the conditions, the worst first, also unknown ones. Plugins of versions of CSI
	// before 1.13 have only a message.
	Statuses []*structs.CSIHealth `json:",omitempty" codec:",omitempty"`
}

// Bound cuts what another process tells of a volume, nil for nothing.
func (c *VolumeCondition) Bound() {
	if c == nil {
		return
	}
	c.Message = structs.Cut(c.Message, structs.MaxText)
	c.Statuses = slices.DeleteFunc(c.Statuses, func(h *structs.CSIHealth) bool { return h == nil })
	c.Statuses = c.Statuses[:min(len(c.Statuses), structs.MaxCSIHealth)]
	for _, h := range c.Statuses {
		h.Status = structs.Cut(h.Status, structs.MaxName)
		h.Reason = structs.Cut(h.Reason, structs.MaxText)
		h.Message = structs.Cut(h.Message, structs.MaxText)
	}
}

// The states of a mount.
const (
	MountHealthy = "healthy"
	MountDead    = "dead" // each system call on it fails
	MountHung    = "hung" // it does not answer
	// its file system could be written when it was mounted, and cannot be written now
	MountReadOnly = "read_only"
	MountGone     = "gone" // nothing is mounted there any more, or another file system
)

// The policies of a job for an ill mount.
const (
	DeadMountRestart   = "restart"
	DeadMountRepublish = "republish"
	DeadMountIgnore    = "ignore"
)

// DeadMountPolicies are the values of on_dead_mount.
var DeadMountPolicies = []string{"", DeadMountRestart, DeadMountRepublish, DeadMountIgnore}

// MountHealth is the state of one mount of a volume on a node.
type MountHealth struct {
	// AllocID is the allocation that has the mount, "" for the staged volume, which all of them share.
	AllocID string `json:",omitempty" codec:",omitempty"`
	State   string `json:",omitempty" codec:",omitempty"`
	// Reason is "" for a healthy mount.
	Reason string `json:",omitempty" codec:",omitempty"`
	// Since is when the node has seen the state first, in Unix nanoseconds.
	Since int64 `json:",omitempty" codec:",omitempty"`
	// Healing tells how far the node is with the repair of the mount, "" if it repairs nothing.
	Healing string `json:",omitempty" codec:",omitempty"`
}

// Ill reports whether the state is not healthy.
func (m *MountHealth) Ill() bool { return m.State != MountHealthy }

// VolumeTrim tells how a node trims a volume: it makes the file system tell its storage which blocks hold no
// data. The node forgets it when it has no writable mount of the volume any more.
type VolumeTrim struct {
	// Every is the time between two trims.
	Every time.Duration `json:",omitempty" codec:",omitempty"`
	// Time is the end of the last trim (UnixNano), 0 for none, and Bytes is how many the file system gave to the
	// storage then.
	Time  int64 `json:",omitempty" codec:",omitempty"`
	Bytes int64 `json:",omitempty" codec:",omitempty"`
	// Next is the time (UnixNano) of the next one, 0 if there is none: the storage cannot trim.
	Next int64 `json:",omitempty" codec:",omitempty"`
	// Fault is the last try's, "" for a good one.
	Fault string `json:",omitempty" codec:",omitempty"`
}

// The sources of a VolumeUsage.
const (
	UsageByPlugin = "plugin" // NodeGetVolumeStats
	UsageByStatfs = "statfs" // the file system, for a plugin that does not report the use
)

// VolumeUsage is the use of one volume as one node has measured it.
type VolumeUsage struct {
	Namespace string `json:",omitempty" codec:",omitempty"`
	VolumeID  string `json:",omitempty" codec:",omitempty"`
	NodeID    string `json:",omitempty" codec:",omitempty"`
	PluginID  string `json:",omitempty" codec:",omitempty"`
	Source    string `json:",omitempty" codec:",omitempty"`
	// Bytes and Inodes are nil if they are not known: a block device has no inodes.
	Bytes  *UsageAmount `json:",omitempty" codec:",omitempty"`
	Inodes *UsageAmount `json:",omitempty" codec:",omitempty"`
	// Condition is nil if the plugin reports none.
	Condition *VolumeCondition `json:",omitempty" codec:",omitempty"`
	// Time is the time of the amounts, in Unix nanoseconds, 0 if there are none yet.
	Time int64 `json:",omitempty" codec:",omitempty"`
	// Error is the last measurement's, "" for a good one. The amounts are older then.
	Error string `json:",omitempty" codec:",omitempty"`
	// Mounts are the states of its mounts on the node, the staged volume first.
	Mounts []*MountHealth `json:",omitempty" codec:",omitempty"`
	// Trim is nil if the node does not trim the volume.
	Trim *VolumeTrim `json:",omitempty" codec:",omitempty"`
}

// UsageKey names a volume.
type UsageKey struct {
	Namespace string `json:",omitempty" codec:",omitempty"`
	VolumeID  string `json:",omitempty" codec:",omitempty"`
}

// CompareUsageKeys orders keys by namespace and volume.
func CompareUsageKeys(a, b UsageKey) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.VolumeID, b.VolumeID))
}

// NodeUsage reads what a node has measured last. It measures nothing.
var NodeUsage = structs.Read[NodeUsageRequest, NodeUsageResponse]("ClientCSI.VolumeUsage")

// NodeUsageRequest names the volumes. Those that are not mounted on the node are left out of the answer.
type NodeUsageRequest struct {
	Volumes []UsageKey `json:",omitempty" codec:",omitempty"`
	structs.QueryOptions
}

// NodeUsageResponse has a usage for each known volume.
type NodeUsageResponse struct {
	Usages []*VolumeUsage `json:",omitempty" codec:",omitempty"`
	structs.QueryMeta
}

// UsageList asks the nodes that have volumes of a namespace mounted for their use. It is not stored, so each
// call asks the nodes.
var UsageList = structs.Read[VolumeUsageRequest, VolumeUsageResponse]("CSIVolume.Usage")

// VolumeUsageRequest names one volume, or with VolumeID "" all of the namespace.
type VolumeUsageRequest struct {
	VolumeID string `json:",omitempty" codec:",omitempty"`
	structs.QueryOptions
}

// VolumeUsageResponse has a usage for each volume on each node, by namespace, volume and node.
type VolumeUsageResponse struct {
	Usages []*VolumeUsage `json:",omitempty" codec:",omitempty"`
	// Health has the volumes that controllers do not report as healthy, by namespace and volume.
	Health []*VolumeHealth `json:",omitempty" codec:",omitempty"`
	// Warnings name the nodes that did not answer.
	Warnings []string `json:",omitempty" codec:",omitempty"`
	structs.QueryMeta
}

// VolumeGrowRequest asks for the growth of a volume by its rule, or records why it does not grow. The leader
// makes it.
type VolumeGrowRequest struct {
	ID string `json:",omitempty" codec:",omitempty"`
	// RowIndex is the ModifyIndex of the row that the leader read. Another row is not changed.
	RowIndex uint64 `json:",omitempty" codec:",omitempty"`
	// To is the new size in bytes. With 0, Fault is recorded.
	To    int64  `json:",omitempty" codec:",omitempty"`
	Fault string `json:",omitempty" codec:",omitempty"`
	structs.WriteOptions
}
