package schema

import (
	"berth/internal/mvcc"
	"berth/state/sharing"
	"berth/structs"
	"berth/structs/storage"
)

var (
	// Plugins has the plugins by ID.
	Plugins = mvcc.NewTable("csi_plugins", func(p *structs.CSIPluginRow) mvcc.Key {
		return mvcc.KeyOf(p.ID)
	})

	// Instances has the reports on the halves of plugins by plugin, kind and node.
	Instances = mvcc.NewTable("csi_plugin_instances", func(i *structs.CSIPluginInstance) mvcc.Key {
		return mvcc.KeyOf(i.PluginID, string(i.Kind), i.NodeID)
	}).OnPut(sharing.Instance)

	// Node instances by the topology segments that no other node has: a driver of local storage names the
	// node in a segment. Other segments have many nodes. A query finds some of these nodes quickly without an
	// index.
	InstancesByOwnSegment = Instances.MultiIndex("own_segment", func(i *structs.CSIPluginInstance) []mvcc.Key {
		var keys []mvcc.Key
		for _, s := range ownSegments(i) {
			key := mvcc.KeyOf(i.PluginID, s[0], s[1], i.NodeID)
			keys = append(keys, key)
		}
		return keys
	})

	// The counters of each half of a plugin, so that a response for one volume needs no count of the fleet.
	// Every function that puts or deletes an instance, or an allocation that runs a plugin, updates them.
	PluginCounts = mvcc.NewTable("csi_plugin_counts", func(c *structs.CSIPluginCountRow) mvcc.Key {
		return mvcc.KeyOf(c.PluginID, string(c.Kind))
	})
)

var (
	// Volumes has the volumes by namespace and ID.
	Volumes = mvcc.NewTable("csi_volumes", func(v *structs.CSIVolume) mvcc.Key {
		return mvcc.KeyOf(v.Namespace, v.ID)
	}).OnPut(sharing.Volume).OnChange(recountVolumeUse)

	// By plugin and, within it, by the ID that the plugin gave, "" while it is not known.
	VolumesByPlugin = Volumes.UniqueIndex("plugin", func(v *structs.CSIVolume) mvcc.Key {
		return mvcc.KeyOf(v.PluginID, v.ExternalID, v.Namespace, v.ID)
	})

	// Volumes that need a call of the leader: a creation, a deletion or an expansion.
	UnsettledVolumes = Volumes.Index("unsettled", func(v *structs.CSIVolume) mvcc.Key {
		return mvcc.KeyIf(v.Unsettled(), v.State)
	})

	// Volumes that their plugin may still copy, by the volume that is their source.
	VolumesByCloneSource = Volumes.Index("clone_source", func(v *structs.CSIVolume) mvcc.Key {
		source := v.CloneSource
		if source == nil || source.ID == "" || !v.NeedsSource() {
			return nil
		}
		return mvcc.KeyOf(source.Namespace, source.ID)
	})

	// Volumes that jobs have asked for, by the job.
	VolumesByJob = Volumes.Index("job", func(v *structs.CSIVolume) mvcc.Key {
		return mvcc.KeyIf(v.JobID != "", v.Namespace, v.JobID)
	})

	// Dynamic host volumes by their name.
	VolumesByHostName = Volumes.Index("host_name", func(v *structs.CSIVolume) mvcc.Key {
		if v.Host == nil {
			return nil
		}
		return mvcc.KeyOf(v.Namespace, v.Host.Name)
	})

	// Volumes that name a class, by it.
	VolumesByClass = Volumes.Index("class", func(v *structs.CSIVolume) mvcc.Key {
		return mvcc.KeyIf(v.Class != "", v.Class)
	})
)

var (
	// Claims has the claims by namespace, volume and allocation.
	Claims = mvcc.NewTable("csi_claims", func(c *structs.CSIClaim) mvcc.Key {
		return mvcc.KeyOf(c.Namespace, c.VolumeID, c.AllocID)
	}).OnPut(sharing.Claim)

	// ClaimsByNode has the claims by node and allocation.
	ClaimsByNode = Claims.UniqueIndex("node", func(c *structs.CSIClaim) mvcc.Key {
		return mvcc.KeyOf(c.NodeID, c.AllocID, c.Namespace, c.VolumeID)
	})

	// The claim queue of a volume, class by class (see grantable of csi). Of the granted claims it has only the
	// few that exclude other claims of their own class.
	ClaimsByClass = Claims.UniqueIndex("class", func(c *structs.CSIClaim) mvcc.Key {
		k := c.Class()
		if c.State == structs.ClaimGranted && !k.Conflicts(k) {
			return nil
		}
		created := mvcc.Ordered(c.CreateIndex)
		seq := mvcc.Ordered(uint64(c.Seq))
		return mvcc.KeyOf(c.Namespace, c.VolumeID, c.State, ClassKey(k), created, seq)
	})

	// WaitingByPlugin has the claims that wait, by plugin.
	WaitingByPlugin = Claims.Index("waiting_plugin", func(c *structs.CSIClaim) mvcc.Key {
		waits := c.State == structs.ClaimWaiting
		return mvcc.KeyIf(waits, c.PluginID, c.Namespace, c.VolumeID)
	})

	// Claims of allocations that have ended. Their nodes release them.
	EndedClaims = Claims.Index("ended", func(c *structs.CSIClaim) mvcc.Key {
		return mvcc.KeyIf(c.EndTime != 0, c.NodeID)
	})

	// Claims whose nodes have not expanded the volume yet, or could not.
	GrowingClaims = Claims.Index("growing", func(c *structs.CSIClaim) mvcc.Key {
		grows := c.ExpandBytes != 0 || c.ExpandError != nil
		return mvcc.KeyIf(grows, c.Namespace, c.VolumeID)
	})

	// The numbers of granted and waiting claims of each class, so that no reader counts the claims.
	// StoreClaim and DropClaim of package csi update them.
	ClaimQueues = mvcc.NewTable("csi_lines", func(l *structs.CSIClaimQueueRow) mvcc.Key {
		return mvcc.KeyOf(l.Namespace, l.VolumeID)
	})
)

var (
	// Attachments has the attachments by namespace, volume and node.
	Attachments = mvcc.NewTable("csi_attachments", func(a *structs.CSIAttachment) mvcc.Key {
		return mvcc.KeyOf(a.Namespace, a.VolumeID, a.NodeID)
	})

	// AttachmentsByNode has the attachments by node.
	AttachmentsByNode = Attachments.Index("node", func(a *structs.CSIAttachment) mvcc.Key {
		return mvcc.KeyOf(a.NodeID)
	})

	// AttachmentsByMode has the attachments of a volume by access mode and attachment mode.
	AttachmentsByMode = Attachments.Index("mode", func(a *structs.CSIAttachment) mvcc.Key {
		return mvcc.KeyOf(a.Namespace, a.VolumeID, string(a.AccessMode), string(a.AttachmentMode))
	})

	// AttachmentsByExternal has the attachments by plugin and the ID that the plugin gave the volume.
	AttachmentsByExternal = Attachments.Index("external", func(a *structs.CSIAttachment) mvcc.Key {
		return mvcc.KeyOf(a.PluginID, a.ExternalVolumeID)
	})

	// Attachments whose claim was released without its node, and that are being detached.
	ForcedDetaches = Attachments.Index("forced", func(a *structs.CSIAttachment) mvcc.Key {
		return mvcc.KeyIf(a.Forced && a.State == structs.AttachmentDetaching,
			a.Namespace, a.VolumeID, a.NodeID)
	})

	// Attachments that need a call of the leader: an attach or a detach.
	UnsettledAttachments = Attachments.Index("unsettled", func(a *structs.CSIAttachment) mvcc.Key {
		return mvcc.KeyIf(a.Unsettled(), a.State)
	})
)

// PluginConfigs has the settings of plugins by ID. A plugin with the default settings has no row.
var PluginConfigs = mvcc.NewTable("csi_plugin_configs", func(c *storage.PluginSettings) mvcc.Key {
	return mvcc.KeyOf(c.ID)
})

var (
	// VolumeClasses has the volume classes by name.
	VolumeClasses = mvcc.NewTable("volume_classes", func(c *storage.VolumeClass) mvcc.Key {
		return mvcc.KeyOf(c.Name)
	})

	// Exhausted has the places in which plugins had no space, by plugin, class and place.
	Exhausted = mvcc.NewTable("csi_exhausted", func(e *storage.Exhaustion) mvcc.Key {
		return mvcc.KeyOf(e.PluginID, e.Class, e.Place)
	})

	// The default class: at most one.
	DefaultClasses = VolumeClasses.Index("default", func(c *storage.VolumeClass) mvcc.Key {
		return mvcc.KeyIf(c.Default, "default")
	})
)

var (
	// Snapshots has the snapshots of volumes by namespace and name.
	Snapshots = mvcc.NewTable("csi_snapshots", func(s *storage.VolumeSnapshot) mvcc.Key {
		return mvcc.KeyOf(s.Namespace, s.Name)
	})

	// SnapshotsByVolume has the snapshots by the ID of their volume, which may be gone.
	SnapshotsByVolume = Snapshots.Index("volume", func(s *storage.VolumeSnapshot) mvcc.Key {
		return mvcc.KeyOf(s.Namespace, s.VolumeID)
	})

	// By plugin and, within it, by the ID that the plugin gave, "" while it is not known.
	SnapshotsByPlugin = Snapshots.UniqueIndex("plugin", func(s *storage.VolumeSnapshot) mvcc.Key {
		return mvcc.KeyOf(s.PluginID, s.ExternalID, s.Namespace, s.Name)
	})

	// Snapshots that need a call of the leader.
	UnsettledSnapshots = Snapshots.Index("unsettled", func(s *storage.VolumeSnapshot) mvcc.Key {
		return mvcc.KeyIf(s.Unsettled(), s.State)
	})

	// SnapshotsBySchedule has the snapshots that schedules have taken by the name of the schedule, which may
	// be gone.
	SnapshotsBySchedule = Snapshots.Index("schedule", func(s *storage.VolumeSnapshot) mvcc.Key {
		return mvcc.KeyIf(s.Schedule != "", s.Namespace, s.Schedule)
	})

	// SnapshotGroups has the group snapshots by namespace and name.
	SnapshotGroups = mvcc.NewTable("csi_snapshot_groups", func(g *storage.GroupSnapshot) mvcc.Key {
		return mvcc.KeyOf(g.Namespace, g.Name)
	})

	// Groups that need a call of the leader.
	UnsettledSnapshotGroups = SnapshotGroups.Index("unsettled", func(g *storage.GroupSnapshot) mvcc.Key {
		return mvcc.KeyIf(g.Unsettled(), g.State)
	})

	// SnapshotSchedules has the schedules of snapshots by namespace and name.
	SnapshotSchedules = mvcc.NewTable("csi_snapshot_schedules", func(s *storage.SnapshotSchedule) mvcc.Key {
		return mvcc.KeyOf(s.Namespace, s.Name)
	})
)

var (
	// Drifts has the differences between rows and storage by plugin, kind, volume and node.
	Drifts = mvcc.NewTable("csi_drifts", func(d *storage.VolumeDrift) mvcc.Key {
		return mvcc.KeyOf(d.PluginID, d.Kind, d.ExternalID, d.ExternalNodeID)
	})

	// DriftsByVolume has the differences by volume.
	DriftsByVolume = Drifts.Index("volume", func(d *storage.VolumeDrift) mvcc.Key {
		return mvcc.KeyOf(d.Namespace, d.VolumeID)
	})

	// Health has the volumes that controllers do not report as healthy, by namespace and volume.
	Health = mvcc.NewTable("csi_volume_health", func(h *storage.VolumeHealth) mvcc.Key {
		return mvcc.KeyOf(h.Namespace, h.VolumeID)
	})

	// HealthByPlugin has them by plugin.
	HealthByPlugin = Health.Index("plugin", func(h *storage.VolumeHealth) mvcc.Key {
		return mvcc.KeyOf(h.PluginID)
	})

	// DriftSummaries has the numbers of the differences by plugin.
	DriftSummaries = mvcc.NewTable("csi_drift_summaries", func(s *storage.DriftSummary) mvcc.Key {
		return mvcc.KeyOf(s.PluginID)
	})
)

var (
	// HostClaims has the claims of groups on dynamic host volumes by namespace and ID.
	HostClaims = mvcc.NewTable("host_volume_claims", func(c *storage.TaskGroupHostVolumeClaim) mvcc.Key {
		return mvcc.KeyOf(c.Namespace, c.ID)
	})

	// HostClaimsByGroup has the claims by job, group and name of the volume.
	HostClaimsByGroup = HostClaims.Index("group", func(c *storage.TaskGroupHostVolumeClaim) mvcc.Key {
		return mvcc.KeyOf(c.Namespace, c.JobID, c.TaskGroupName, c.VolumeName)
	})

	// HostClaimsByVolume has the claims by volume.
	HostClaimsByVolume = HostClaims.Index("volume", func(c *storage.TaskGroupHostVolumeClaim) mvcc.Key {
		return mvcc.KeyOf(c.Namespace, c.VolumeID)
	})
)
