// Package snapshot changes the rows of snapshots of volumes, of groups of snapshots and of their schedules:
// requests, calls of the plugin and their outcomes. A member follows its group in the same entry of the log.
// The readers of snapshots are in package csi.
package snapshot

import (
	"maps"
	"slices"

	"berth/internal/mvcc"
	"berth/state/csi"
	"berth/state/namespace"
	"berth/state/schema"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/storage"
)

// NameAtPlugin returns the name that CreateSnapshot is called with. It is the row's, and unique by the ID of
// the row, so each repeat of the call is about the same snapshot.
func NameAtPlugin(s *storage.VolumeSnapshot) string { return csi.VolumeName(s.Name, s.ID) }

// Sources returns the plugin's IDs of the volumes of snapshots.
func Sources(rows []*storage.VolumeSnapshot) (ids []string) {
	for _, s := range rows {
		ids = append(ids, s.SourceExternalID)
	}
	return ids
}

// Of returns the row of a snapshot of a volume, with a name and an ID. It has the secrets of the volume.
func Of(v *structs.CSIVolume, name, id string) *storage.VolumeSnapshot {
	return &storage.VolumeSnapshot{
		Namespace:        v.Namespace,
		Name:             name,
		ID:               id,
		VolumeID:         v.ID,
		VolumeIndex:      v.CreateIndex,
		PluginID:         v.PluginID,
		SourceExternalID: v.ExternalID,
		Topologies:       v.Topologies,
		SecretsFrom:      v.SecretsFrom,
		SealedSecrets:    v.SealedSecrets,
	}
}

// CheckAble rejects a snapshot that the plugin of a volume is known to be unable to take. A plugin whose
// controller is not up yet may be able.
func CheckAble(tx mvcc.Reader, v *structs.CSIVolume) error {
	for i := range csi.InstancesByPluginKind(tx, v.PluginID, structs.CSIKindController) {
		if i.Healthy && i.ControllerInfo != nil && !i.ControllerInfo.SupportsCreateDeleteSnapshot {
			return structs.Preconditionf("volume %q: CSI plugin %q takes no snapshots", v.ID, v.PluginID)
		}
	}
	return nil
}

// NotFound is the error for a snapshot that does not exist.
func NotFound(ns, name string) error {
	return notFound(storage.KindSnapshot, ns, name)
}

// Put records snapshots that are to be taken. A snapshot that exists with an equal request stays as it is;
// one that has failed is tried again. The error is a conflict for another request of the same name, and a
// precondition for a volume that is not ready.
func Put(tx *mvcc.WriteTx, p *storage.SnapshotPutEntry) error {
	for _, s := range p.Snapshots {
		if s == nil || s.Namespace == "" || s.Name == "" || s.ID == "" || s.PluginID == "" ||
			s.SourceExternalID == "" {
			return structs.Invalidf(
				"a snapshot needs a namespace, a name, an ID, a plugin and the plugin's ID of its volume")
		}
		err := put(tx, s, p.Now)
		if err != nil {
			return err
		}
	}
	return nil
}

func put(tx *mvcc.WriteTx, wanted *storage.VolumeSnapshot, now int64) error {
	err := CheckPut(tx, wanted)
	if err != nil {
		return err
	}
	old := csi.Snapshot(tx, wanted.Namespace, wanted.Name)
	if old != nil {
		ofSnapshot(old).tryAgain(tx, now)
		return nil
	}

	s := fresh(wanted, now)
	schema.Snapshots.Put(tx, s)
	csi.EnsurePlugin(tx, s.PluginID)
	return nil
}

// fresh returns the row of a snapshot of which nothing is known yet.
func fresh(wanted *storage.VolumeSnapshot, now int64) *storage.VolumeSnapshot {
	s := wanted.Copy()
	s.Progress = begun(now)
	s.SizeBytes = 0
	s.AccessibleTopologies = nil
	return s
}

// CheckPut returns the error of Put for a snapshot, without a change.
func CheckPut(tx mvcc.Reader, wanted *storage.VolumeSnapshot) error {
	old := csi.Snapshot(tx, wanted.Namespace, wanted.Name)
	if old != nil {
		return checkAgain(tx, wanted, old)
	}

	err := namespace.Check(tx, wanted.Namespace)
	if err == nil {
		err = checkSource(tx, wanted)
	}
	if err == nil {
		err = trust.CheckSealed(tx, wanted.SealedSecrets)
	}
	if err == nil {
		err = checkCount(tx, wanted.Namespace)
	}
	return err
}

// checkAgain decides about a request for a name that has a row.
func checkAgain(tx mvcc.Reader, wanted, old *storage.VolumeSnapshot) error {
	same := old.VolumeID == wanted.VolumeID && old.VolumeIndex == wanted.VolumeIndex &&
		maps.Equal(old.Parameters, wanted.Parameters) && old.Group == wanted.Group
	var other error
	switch {
	case old.Group != "" && !same:
		return structs.Conflictf(
			"snapshot %q exists already, as a member of group snapshot %q; choose another name", old.Name, old.Group)
	case !same:
		other = structs.Conflictf("snapshot %q exists already, of volume %q; choose another name, or delete it: %s",
			old.Name, old.VolumeID, structs.CommandLine(old.Namespace, "volume snapshot delete", old.Name))
	}
	return ofSnapshot(old).checkAgain(tx, other)
}

// checkSource rejects a snapshot of a volume that is not the one that the server has read, or not ready.
func checkSource(tx mvcc.Reader, s *storage.VolumeSnapshot) error {
	v := csi.Volume(tx, s.Namespace, s.VolumeID)
	switch {
	case v == nil:
		return structs.NotFoundf("no volume %q in namespace %q", s.VolumeID, s.Namespace)
	case v.CreateIndex != s.VolumeIndex || v.ExternalID != s.SourceExternalID || v.PluginID != s.PluginID:
		return structs.Conflictf("volume %q has changed meanwhile", s.VolumeID)
	case v.State != structs.VolumeReady:
		return structs.Preconditionf("volume %q is %s; only a ready one can have a snapshot taken", v.ID, v.State)
	}
	return nil
}

// checkCount bounds the rows of a namespace. It counts them only if all namespaces together have as many.
func checkCount(tx mvcc.Reader, ns string) error {
	if schema.Snapshots.Len(tx) < storage.MaxSnapshots {
		return nil
	}
	count := 0
	for range schema.Snapshots.Scan(tx, ns) {
		count++
	}
	if count < storage.MaxSnapshots {
		return nil
	}
	return structs.Preconditionf("namespace %q has %d snapshots, the most that the servers store; "+
		"delete some of them first", ns, count)
}

// Delete records that the plugin is to delete a snapshot. The row of one that was surely never cut, or that
// the plugin may keep, goes at once. The error is a conflict while a volume is made from the snapshot.
func Delete(tx *mvcc.WriteTx, p *storage.SnapshotDeleteEntry) error {
	s := csi.Snapshot(tx, p.RequestNamespace(), p.Name)
	if s != nil && s.Group != "" {
		return structs.Preconditionf("snapshot %q is a member of group snapshot %q, and only the group can be deleted: %s",
			s.Name, s.Group, structs.CommandLine(s.Namespace, "volume snapshot group delete", s.Group))
	}
	return remove(tx, storage.KindSnapshot, p)
}

// KeepDeleted keeps the snapshots and groups of a restored state that were being deleted. The state has been
// restored from a time at which they were there.
func KeepDeleted(tx *mvcc.WriteTx) {
	for _, s := range slices.Collect(schema.UnsettledSnapshots.Scan(tx, storage.SnapshotDeleting)) {
		ofSnapshot(s).keep(tx)
	}
	for _, g := range slices.Collect(schema.UnsettledSnapshotGroups.Scan(tx, storage.SnapshotDeleting)) {
		ofGroup(tx, g).keep(tx)
	}
}
