package rights

import (
	"slices"

	"berth/acl"
	"berth/state/csi/snapshot"
	"berth/structs/storage"
)

// The rights on group snapshots are those on each of their volumes.
var (
	SnapshotGroupCreate = Volume(acl.VolumeSnapshot,
		func(r *storage.SnapshotGroupCreateRequest) []string {
			if len(r.VolumeIDs) == 0 {
				return []string{""} // the request is invalid, and tells nobody so
			}
			return r.VolumeIDs
		})

	SnapshotGroupList = ofVolumes(acl.CSIListVolume)

	SnapshotGroupRead = Where("volume: read", func(q Question) bool {
		req := q.Req.(*storage.SnapshotGroupGetRequest)
		return ofGroup(q, req.RequestNamespace(), req.GroupName, acl.VolumeRead)
	})

	SnapshotGroupDelete = Where("volume: snapshot, to delete volume: force for the rows alone",
		func(q Question) bool {
			req := q.Req.(*storage.SnapshotGroupDeleteRequest)
			ns := req.RequestNamespace()
			mayForce := !req.Force || ofGroup(q, ns, req.GroupName, acl.VolumeForce)
			return mayForce && ofGroup(q, ns, req.GroupName, acl.VolumeSnapshot)
		})
)

// ofGroup reports whether a caller has a right on each volume of a group. For a group that does not exist it
// is the right on the volumes of the namespace.
func ofGroup(q Question, ns, name string, right acl.Capability) bool {
	volumes := []string{""}
	g := snapshot.Group(q.Tx, ns, name)
	if g != nil {
		volumes = g.VolumeIDs
	}
	return !slices.ContainsFunc(volumes, func(id string) bool { return !q.ACL.Volume(ns, id, right) })
}
