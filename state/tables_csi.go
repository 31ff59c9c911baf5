package state

import (
	"berth/internal/mvcc"
	"berth/state/sharing"
	"berth/structs"
)

var (
	// plugins has the plugins by ID.
	plugins = mvcc.NewTable("csi_plugins", func(p *structs.CSIPluginRow) Key {
		return mvcc.KeyOf(p.ID)
	})

	// instances has the reports on the halves of plugins by plugin, kind and node.
	instances = mvcc.NewTable("csi_plugin_instances", func(i *structs.CSIPluginInstance) Key {
		return mvcc.KeyOf(i.PluginID, string(i.Kind), i.NodeID)
	}).OnPut(sharing.Instance)

	// Node instances by the topology segments that no other node has: a driver of local storage names the node
	// in a segment. Other segments have many nodes. A query finds some of these nodes quickly without an index.
	instancesByOwnSegment = instances.MultiIndex("own_segment", func(i *structs.CSIPluginInstance) []Key {
		var keys []Key
		for _, s := range ownSegments(i) {
			key := mvcc.KeyOf(i.PluginID, s[0], s[1], i.NodeID)
			keys = append(keys, key)
		}
		return keys
	})

	// The counters of each half of a plugin, so that a response for one volume needs no count of the fleet.
	// Every function that puts or deletes an instance, or an allocation that runs a plugin, updates them.
	counts = mvcc.NewTable("csi_plugin_counts", func(c *structs.CSIPluginCountRow) Key {
		return mvcc.KeyOf(c.PluginID, string(c.Kind))
	})
)

var (
	// volumes has the volumes by namespace and ID.
	volumes = mvcc.NewTable("csi_volumes", func(v *structs.CSIVolume) Key {
		return mvcc.KeyOf(v.Namespace, v.ID)
	}).OnPut(sharing.Volume)

	// By plugin and, within it, by the ID that the plugin gave, "" while it is not known.
	volumesByPlugin = volumes.UniqueIndex("plugin", func(v *structs.CSIVolume) Key {
		return mvcc.KeyOf(v.PluginID, v.ExternalID, v.Namespace, v.ID)
	})

	// Volumes that need a call of the leader: a creation, a deletion or an expansion.
	unsettledVolumes = volumes.Index("unsettled", func(v *structs.CSIVolume) Key {
		return mvcc.KeyIf(v.Unsettled(), v.State)
	})
)

var (
	// claims has the claims by namespace, volume and allocation.
	claims = mvcc.NewTable("csi_claims", func(c *structs.CSIClaim) Key {
		return mvcc.KeyOf(c.Namespace, c.VolumeID, c.AllocID)
	}).OnPut(sharing.Claim)

	// claimsByNode has the claims by node and allocation.
	claimsByNode = claims.UniqueIndex("node", func(c *structs.CSIClaim) Key {
		return mvcc.KeyOf(c.NodeID, c.AllocID, c.Namespace, c.VolumeID)
	})

	// The claim queue of a volume, class by class (see claim_queue.go). Of the granted claims it has only the
	// few that exclude other claims of their own class.
	claimsByClass = claims.UniqueIndex("class", func(c *structs.CSIClaim) Key {
		k := c.Class()
		if c.State == structs.ClaimGranted && !k.Conflicts(k) {
			return nil
		}
		created := mvcc.Ordered(c.CreateIndex)
		seq := mvcc.Ordered(uint64(c.Seq))
		return mvcc.KeyOf(c.Namespace, c.VolumeID, c.State, classKey(k), created, seq)
	})

	// waitingByPlugin has the claims that wait, by plugin.
	waitingByPlugin = claims.Index("waiting_plugin", func(c *structs.CSIClaim) Key {
		waits := c.State == structs.ClaimWaiting
		return mvcc.KeyIf(waits, c.PluginID, c.Namespace, c.VolumeID)
	})

	// Claims of allocations that have ended. Their nodes release them.
	endedClaims = claims.Index("ended", func(c *structs.CSIClaim) Key {
		return mvcc.KeyIf(c.EndTime != 0, c.NodeID)
	})

	// Claims whose nodes have not expanded the volume yet, or could not.
	growing = claims.Index("growing", func(c *structs.CSIClaim) Key {
		grows := c.ExpandBytes != 0 || c.ExpandError != nil
		return mvcc.KeyIf(grows, c.Namespace, c.VolumeID)
	})

	// The numbers of granted and waiting claims of each class, so that no reader counts the claims.
	// storeClaim and dropClaim update them.
	claimQueues = mvcc.NewTable("csi_lines", func(l *structs.CSIClaimQueueRow) Key {
		return mvcc.KeyOf(l.Namespace, l.VolumeID)
	})
)

var (
	// attachments has the attachments by namespace, volume and node.
	attachments = mvcc.NewTable("csi_attachments", func(a *structs.CSIAttachment) Key {
		return mvcc.KeyOf(a.Namespace, a.VolumeID, a.NodeID)
	})

	// attachmentsByNode has the attachments by node.
	attachmentsByNode = attachments.Index("node", func(a *structs.CSIAttachment) Key {
		return mvcc.KeyOf(a.NodeID)
	})

	// attachmentsByMode has the attachments of a volume by access mode and attachment mode.
	attachmentsByMode = attachments.Index("mode", func(a *structs.CSIAttachment) Key {
		return mvcc.KeyOf(a.Namespace, a.VolumeID, string(a.AccessMode), string(a.AttachmentMode))
	})

	// attachmentsByExternal has the attachments by plugin and the ID that the plugin gave the volume.
	attachmentsByExternal = attachments.Index("external", func(a *structs.CSIAttachment) Key {
		return mvcc.KeyOf(a.PluginID, a.ExternalVolumeID)
	})

	// Attachments whose claim was released without its node, and that are being detached.
	forcedDetaches = attachments.Index("forced", func(a *structs.CSIAttachment) Key {
		return mvcc.KeyIf(a.Forced && a.State == structs.AttachmentDetaching,
			a.Namespace, a.VolumeID, a.NodeID)
	})

	// Attachments that need a call of the leader: an attach or a detach.
	unsettledAttachments = attachments.Index("unsettled", func(a *structs.CSIAttachment) Key {
		return mvcc.KeyIf(a.Unsettled(), a.State)
	})
)

// pluginConfigs has the settings of plugins by ID. A plugin with the default settings has no row.
var pluginConfigs = mvcc.NewTable("csi_plugin_configs", func(c *structs.CSIPluginSettings) Key {
	return mvcc.KeyOf(c.ID)
})
