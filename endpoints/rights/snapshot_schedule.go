package rights

import (
	"berth/acl"
	"berth/state/csi"
	"berth/state/csi/snapshot"
	"berth/structs/storage"
)

// The rights on schedules of snapshots are those on their volumes: a schedule takes snapshots and deletes
// them.
var (
	ScheduleList = ofVolumes(acl.CSIListVolume)

	ScheduleRead = Where("volume: read", func(q Question) bool {
		req := q.Req.(*storage.ScheduleGetRequest)
		return ofSchedule(q, req.RequestNamespace(), req.ScheduleName, acl.VolumeRead)
	})

	// SchedulePut asks for the variable with the secrets, too: otherwise a schedule would use secrets that its
	// author may not read.
	SchedulePut = Where("volume: snapshot, for secrets_from variables: read",
		func(q Question) bool {
			req := q.Req.(*storage.SchedulePutRequest)
			ns := req.RequestNamespace()
			s := req.Schedule
			if s == nil {
				return q.ACL.Volume(ns, "", acl.VolumeSnapshot)
			}
			v := csi.Volume(q.Tx, ns, s.VolumeID)
			own := v != nil && v.SecretsFrom == s.SecretsFrom
			return q.ACL.Volume(ns, s.VolumeID, acl.VolumeSnapshot) &&
				(s.SecretsFrom == "" || own || q.ACL.Variable(ns, s.SecretsFrom, acl.VariablesRead))
		})

	SchedulePause = Where("volume: snapshot", func(q Question) bool {
		req := q.Req.(*storage.SchedulePauseRequest)
		return ofSchedule(q, req.RequestNamespace(), req.ScheduleName, acl.VolumeSnapshot)
	})

	ScheduleDelete = Where("volume: snapshot", func(q Question) bool {
		req := q.Req.(*storage.ScheduleDeleteRequest)
		return ofSchedule(q, req.RequestNamespace(), req.ScheduleName, acl.VolumeSnapshot)
	})
)

// ofSchedule reports whether a caller has a right on the volume of a schedule. For a schedule that does not
// exist it is the right on the volumes of the namespace.
func ofSchedule(q Question, ns, name string, right acl.Capability) bool {
	volume := ""
	s := snapshot.Schedule(q.Tx, ns, name)
	if s != nil {
		volume = s.VolumeID
	}
	return q.ACL.Volume(ns, volume, right)
}
