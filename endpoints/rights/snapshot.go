package rights

import (
	"berth/acl"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/storage"
)

// The rights on snapshots are those on their volumes.
var (
	SnapshotCreate = Volume(acl.VolumeSnapshot, sourcesOf)
	SnapshotList   = ofVolumes(acl.CSIListVolume)

	SnapshotRead = Where("volume: read", func(q Question) bool {
		req := q.Req.(*storage.SnapshotGetRequest)
		ns := req.RequestNamespace()
		return q.ACL.Volume(ns, volumeOfSnapshot(csi.Snapshot(q.Tx, ns, req.SnapshotName)), acl.VolumeRead)
	})

	// SnapshotDelete decides by the row, also one in another namespace. The data of a snapshot without a row may
	// be anybody's.
	SnapshotDelete = Where(
		"volume: snapshot, to delete volume: force for one without a row, or a row alone",
		func(q Question) bool {
			req := q.Req.(*storage.SnapshotDeleteRequest)
			ns := req.RequestNamespace()
			if req.SnapshotName != "" || req.SnapshotID == "" {
				volume := volumeOfSnapshot(csi.Snapshot(q.Tx, ns, req.SnapshotName))
				mayForce := !req.Force || q.ACL.Volume(ns, volume, acl.VolumeForce)
				return mayForce && q.ACL.Volume(ns, volume, acl.VolumeSnapshot)
			}
			row := csi.SnapshotByExternal(q.Tx, req.PluginID, req.SnapshotID)
			if row != nil {
				return q.ACL.Volume(row.Namespace, row.VolumeID, acl.VolumeSnapshot)
			}
			return q.ACL.Volume(ns, "", acl.VolumeForce)
		})
)

func sourcesOf(r *storage.SnapshotCreateRequest) (ids []string) {
	for _, s := range r.Snapshots {
		if s != nil {
			ids = append(ids, s.SourceVolumeID)
		}
	}
	if len(ids) == 0 {
		return []string{""} // the request is invalid, and tells nobody so
	}
	return ids
}

// volumeOfSnapshot returns the ID by which rights name a snapshot, "" for one that does not exist.
func volumeOfSnapshot(s *storage.VolumeSnapshot) string {
	if s == nil {
		return ""
	}
	return s.VolumeID
}

// mayRestore reports whether a caller may fill a new volume from a snapshot: by the name of one in the
// namespace of the volume with the right on its source, by the ID at a plugin with the right to force.
func mayRestore(q Question, ns string, v *structs.CSIVolume) bool {
	if v.SnapshotID != "" && !q.ACL.Volume(ns, v.ID, acl.VolumeForce) {
		return false // the caller may have made up the ID
	}
	if v.Snapshot == "" {
		return true
	}
	row := csi.Snapshot(q.Tx, ns, v.Snapshot)
	return q.ACL.Volume(ns, volumeOfSnapshot(row), acl.VolumeSnapshot)
}
