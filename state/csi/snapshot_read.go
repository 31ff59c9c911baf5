package csi

import (
	"cmp"
	"fmt"
	"iter"
	"strings"

	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/storage"
)

// Snapshot returns a snapshot by its name, nil if there is none.
func Snapshot(tx mvcc.Reader, ns, name string) *storage.VolumeSnapshot {
	return schema.Snapshots.Get(tx, ns, name)
}

// SnapshotByExternal returns the snapshot that has an ID at a plugin, nil if none has it.
func SnapshotByExternal(tx mvcc.Reader, plugin, external string) *storage.VolumeSnapshot {
	if external == "" {
		return nil // of each snapshot that is not cut yet
	}
	return schema.SnapshotsByPlugin.First(tx, plugin, external)
}

// SnapshotsOf yields the snapshots of a volume ID by name, also snapshots of earlier volumes with it.
func SnapshotsOf(tx mvcc.Reader, ns, volume string) iter.Seq[*storage.VolumeSnapshot] {
	return schema.SnapshotsByVolume.Scan(tx, ns, volume)
}

// snapshotNeeding describes a snapshot that a volume has to exist for, "" if there is none. Its creation is
// repeated until the plugin has finished it. After a failed creation of unknown outcome the deletion of the
// row repeats it, to learn the ID. A plugin may not find the snapshot of a volume that is gone.
func snapshotNeeding(tx mvcc.Reader, v *structs.CSIVolume) string {
	for s := range SnapshotsOf(tx, v.Namespace, v.ID) {
		switch {
		case s.VolumeIndex != v.CreateIndex:
		case s.NeedsVolume():
			return fmt.Sprintf("snapshot %q of volume %q is not finished; wait for it", s.Name, v.ID)
		case s.State == storage.SnapshotFailed && s.ExternalID == "" && s.Called:
			return fmt.Sprintf("plugin %q may have the failed snapshot %q of volume %q; delete it first: %s",
				s.PluginID, s.Name, v.ID, deletionOf(s))
		}
	}
	return ""
}

// deletionOf returns the command that deletes a snapshot, for a member of a group with its group.
func deletionOf(s *storage.VolumeSnapshot) string {
	if s.Group != "" {
		return structs.CommandLine(s.Namespace, "volume snapshot group delete", s.Group)
	}
	return structs.CommandLine(s.Namespace, "volume snapshot delete", s.Name)
}

// RestoreOf names a volume that is being made from a snapshot, "" if there is none.
func RestoreOf(tx mvcc.Reader, s *storage.VolumeSnapshot) string {
	if s.ExternalID == "" {
		return ""
	}
	// A volume whose creation is being undone has no ID yet: the plugin is called for it again.
	for v := range schema.VolumesByPlugin.Scan(tx, s.PluginID, "") {
		if v.SnapshotID == s.ExternalID && v.NeedsSource() {
			return v.Namespace + "/" + v.ID
		}
	}
	return ""
}

// checkRestore rejects a volume that is to be made from a snapshot of a row that is not ready, or larger. Of
// a snapshot without a row the plugin decides.
func checkRestore(tx mvcc.Reader, v *structs.CSIVolume) error {
	if v.State != structs.VolumeCreating || v.SnapshotID == "" {
		return nil
	}
	s := SnapshotByExternal(tx, v.PluginID, v.SnapshotID)
	if s == nil {
		return nil
	}
	if s.State != storage.SnapshotReady {
		return structs.Preconditionf("volume %q: snapshot %q is %s; only a ready one can be restored",
			v.ID, s.Name, s.State)
	}

	limit := cmp.Or(v.RequestedCapacityMax, s.SizeBytes)
	if limit < s.SizeBytes || v.RequestedCapacityMin != 0 && v.RequestedCapacityMin < s.SizeBytes {
		return structs.Invalidf("volume %q: its capacity must allow the %s of snapshot %q",
			v.ID, structs.FormatBytes(s.SizeBytes), s.Name)
	}
	return nil
}

// SnapshotsFrom yields the snapshots of a namespace whose name begins with prefix, from a namespace and name
// on.
func SnapshotsFrom(
	tx *mvcc.ReadTx, ns, prefix string, at mvcc.Page,
) iter.Seq[*storage.VolumeSnapshot] {
	rows := schema.Snapshots.Range(tx, schema.NamespaceScope(ns, prefix), at)
	return schema.Filter(rows, func(s *storage.VolumeSnapshot) bool {
		return strings.HasPrefix(s.Name, prefix)
	})
}

// SnapshotsOfPlugin yields the snapshots of a plugin in the order of their IDs there.
func SnapshotsOfPlugin(tx mvcc.Reader, plugin string) iter.Seq[*storage.VolumeSnapshot] {
	return schema.SnapshotsByPlugin.Scan(tx, plugin)
}

// ResolveSnapshot completes a volume that is to be made from a snapshot of its namespace, given by its name:
// with the ID at the plugin, with its size as the least one and, if none is requested, with its topologies as
// the preferred ones. A snapshot that is not usable everywhere limits the topologies. old is the row before,
// nil for none. The error is not-found, or names the fault.
func ResolveSnapshot(tx mvcc.Reader, v, old *structs.CSIVolume) error {
	// A creation that is repeated has the first snapshot, also if another one has its name now.
	if old != nil && old.State == structs.VolumeCreating && v.Snapshot == old.Snapshot {
		v.SnapshotID = cmp.Or(v.SnapshotID, old.SnapshotID)
		if v.RequestedTopologies == nil { // the row's stay
			return nil
		}
		return limitToSnapshot(v, SnapshotByExternal(tx, v.PluginID, v.SnapshotID))
	}
	if v.Snapshot == "" {
		return limitToSnapshot(v, SnapshotByExternal(tx, v.PluginID, v.SnapshotID))
	}
	// A client that has read the row of a failed creation sends back both.
	if old != nil && v.Snapshot == old.Snapshot && v.SnapshotID == old.SnapshotID {
		v.SnapshotID = ""
	}

	s := Snapshot(tx, v.Namespace, v.Snapshot)
	switch {
	case v.CloneID != "" || v.SnapshotID != "":
		return structs.Invalidf("volume %q: snapshot excludes snapshot_id and clone_id", v.ID)
	case s == nil:
		return structs.NotFoundf("volume %q: no snapshot %q in namespace %q", v.ID,
			structs.Cut(v.Snapshot, structs.MaxQuoted), v.Namespace)
	case s.PluginID != v.PluginID:
		return structs.Invalidf("volume %q: snapshot %q is one of plugin %q, and only that can restore it",
			v.ID, s.Name, s.PluginID)
	case s.State != storage.SnapshotReady:
		return structs.Preconditionf("volume %q: snapshot %q is %s; only a ready one can be restored",
			v.ID, s.Name, s.State)
	}

	v.SnapshotID = s.ExternalID
	v.RequestedCapacityMin = cmp.Or(v.RequestedCapacityMin, s.SizeBytes)
	if v.RequestedTopologies == nil && len(s.Topologies) > 0 {
		v.RequestedTopologies = &structs.CSITopologyRequest{Preferred: s.Topologies}
	}
	return limitToSnapshot(v, s)
}
