package storage

import "berth/structs"

// SchedulePut creates or changes a schedule. The error is a conflict if it is one of another volume.
var SchedulePut = structs.Write[SchedulePutRequest, structs.Empty]("SnapshotSchedule.Put")

// SchedulePutRequest has the schedule as it is to be, without what the servers record.
type SchedulePutRequest struct {
	Schedule *SnapshotSchedule
	structs.WriteOptions
}

// SchedulePause pauses or resumes a schedule. Of the times that pass in a pause, the latest one is taken at
// its end.
var SchedulePause = structs.Write[SchedulePauseRequest, structs.Empty]("SnapshotSchedule.Pause")

// SchedulePauseRequest names the schedule.
type SchedulePauseRequest struct {
	ScheduleName string
	Paused       bool
	structs.WriteOptions
}

// ScheduleDelete deletes a schedule. Its snapshots stay.
var ScheduleDelete = structs.Write[ScheduleDeleteRequest, structs.Empty]("SnapshotSchedule.Delete")

// ScheduleDeleteRequest names the schedule.
type ScheduleDeleteRequest struct {
	ScheduleName string
	structs.WriteOptions
}

// ScheduleList lists the schedules.
var ScheduleList = structs.Read[ScheduleListRequest, ScheduleListResponse]("SnapshotSchedule.List")

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

// ScheduleGet reads a schedule. The error is not-found.
var ScheduleGet = structs.Read[ScheduleGetRequest, ScheduleGetResponse]("SnapshotSchedule.Get")

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
