package snapschedule

import "berth/structs"

// Put creates or changes a schedule. The error is a conflict if it is one of another volume.
var Put = structs.Write[SchedulePutRequest, structs.Empty]("SnapshotSchedule.Put")

// SchedulePutRequest has the schedule as it is to be, without what the servers record.
type SchedulePutRequest struct {
	Schedule *SnapshotSchedule
	structs.WriteOptions
}

// Pause pauses or resumes a schedule. Of the times that pass in a pause, the latest one is taken at its end.
var Pause = structs.Write[SchedulePauseRequest, structs.Empty]("SnapshotSchedule.Pause")

// SchedulePauseRequest names the schedule.
type SchedulePauseRequest struct {
	ScheduleName string
	Paused       bool
	structs.WriteOptions
}

// Remove deletes a schedule. Its snapshots stay.
var Remove = structs.Write[ScheduleDeleteRequest, structs.Empty]("SnapshotSchedule.Delete")

// ScheduleDeleteRequest names the schedule.
type ScheduleDeleteRequest struct {
	ScheduleName string
	structs.WriteOptions
}

// List lists the schedules.
var List = structs.Read[ScheduleListRequest, ScheduleListResponse]("SnapshotSchedule.List")

// ScheduleListRequest selects the schedules of a volume, "" for all.
type ScheduleListRequest struct {
	VolumeID string
	structs.QueryOptions
}

// ScheduleListResponse has the rows by namespace and name.
type ScheduleListResponse struct {
	Schedules []*SnapshotSchedule
	structs.QueryMeta
}

// Get reads a schedule. The error is not-found.
var Get = structs.Read[ScheduleGetRequest, ScheduleGetResponse]("SnapshotSchedule.Get")

// ScheduleGetRequest names the schedule.
type ScheduleGetRequest struct {
	ScheduleName string
	structs.QueryOptions
}

// ScheduleGetResponse has the row. Next is the next time in UnixNano, 0 for none.
type ScheduleGetResponse struct {
	Schedule *SnapshotSchedule
	Next     int64
	structs.QueryMeta
}
