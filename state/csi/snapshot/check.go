package snapshot

import (
	"berth/state/csi"
	"berth/state/schema"
	"berth/structs/storage"
)

// CheckSnapshots checks the invariants of the rows: a state that exists, one row for each snapshot of a
// plugin, and the ID of each snapshot that is cut.
func CheckSnapshots(c *schema.Report) {
	schema.CheckIndexes(c, schema.Snapshots)
	external := map[[2]string]string{}
	for s := range schema.Snapshots.Scan(c) {
		title := s.Namespace + "/" + s.Name
		if s.ExternalID != "" {
			key := [2]string{s.PluginID, s.ExternalID}
			c.Want(external[key] == "", "snapshots %s and %s are both %s of plugin %s",
				external[key], title, s.ExternalID, s.PluginID)
			external[key] = title
		}

		switch s.State {
		case storage.SnapshotPending, storage.SnapshotReady:
			c.Want(s.ExternalID != "", "snapshot %s is %s and has no ID at its plugin", title, s.State)
		case storage.SnapshotCreating:
			c.Want(s.ExternalID == "", "snapshot %s is creating and cut", title)
		case storage.SnapshotFailed, storage.SnapshotDeleting:
		default:
			c.Want(false, "snapshot %s: state %q", title, s.State)
		}
		c.Want(s.Call == nil || s.Unsettled(), "snapshot %s is %s and called", title, s.State)
		c.Want(csi.Plugin(c, s.PluginID) != nil, "snapshot %s: plugin %s has no row", title, s.PluginID)
	}
}

// CheckGroups checks the invariants of the rows: a group and its members name each other and have one state,
// and a group that is cut has its ID and its members' IDs.
func CheckGroups(c *schema.Report) {
	schema.CheckIndexes(c, schema.SnapshotGroups)
	for g := range schema.SnapshotGroups.Scan(c) {
		title := g.Namespace + "/" + g.Name
		members := Members(c, g)
		c.Want(len(members) > 0 && len(members) == len(g.VolumeIDs),
			"group snapshot %s has %d members, of %d", title, len(members), len(g.VolumeIDs))
		for _, m := range members {
			c.Want(m.Group == g.Name && m.State == g.State && m.PluginID == g.PluginID,
				"group snapshot %s is %s, its member %s is %s of group %q", title, g.State, m.Name, m.State, m.Group)
			c.Want((m.ExternalID != "") == (g.ExternalID != ""),
				"group snapshot %s and its member %s: one of them is cut", title, m.Name)
		}
		c.Want(g.Call == nil || g.Unsettled(), "group snapshot %s is %s and called", title, g.State)
	}
	for s := range schema.Snapshots.Scan(c) {
		c.Want(s.Group == "" || Group(c, s.Namespace, s.Group) != nil, "snapshot %s/%s: its group %q has no row",
			s.Namespace, s.Name, s.Group)
	}
}
