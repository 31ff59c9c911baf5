package snapschedule

import "berth/structs"

// Put creates or changes a schedule. The error is a conflict if it is one of another volume.
var Put = structs.Write[SchedulePutRequest, structs.Empty]("SnapshotSchedule.Put")

// SchedulePutRequest has the schedule as it is to be, without what the servers record.
type SchedulePutRequest struct {
	Schedule             *SnapshotSchedule `level:"2"`
	structs.WriteOptions `level:"2"`
}

// Pause pauses or resumes a schedule. Of the times that pass in a pause, the latest one is taken at its end.
var Pause = structs.Write[SchedulePauseRequest, structs.Empty]("SnapshotSchedule.Pause")

// SchedulePauseRequest names the schedule.
type SchedulePauseRequest struct {
	ScheduleName         string `level:"2"`
	Paused               bool   `level:"2"`
	structs.WriteOptions `level:"2"`
}

// Remove deletes a schedule. Its snapshots stay.
var Remove = structs.Write[ScheduleDeleteRequest, structs.Empty]("SnapshotSchedule.Delete")

// ScheduleDeleteRequest names the schedule.
type ScheduleDeleteRequest struct {
	ScheduleName         string `level:"2"`
	structs.WriteOptions `level:"2"`
}

// List lists the schedules.
var List = structs.Read[ScheduleListRequest, ScheduleListResponse]("SnapshotSchedule.List")

// ScheduleListRequest selects the schedules of a volume, "" for all.
type ScheduleListRequest struct {
	VolumeID             string `level:"2"`
	structs.QueryOptions `level:"2"`
}

// ScheduleListResponse has the rows by namespace and name.
type ScheduleListResponse struct {
	Schedules         []*SnapshotSchedule `level:"2"`
	structs.QueryMeta `level:"2"`
}

// Get reads a schedule. The error is not-found.
var Get = structs.Read[ScheduleGetRequest, ScheduleGetResponse]("SnapshotSchedule.Get")

// ScheduleGetRequest names the schedule.
type ScheduleGetRequest struct {
	ScheduleName         string `level:"2"`
	structs.QueryOptions `level:"2"`
}

// ScheduleGetResponse has the row. Next is the next time in UnixNano, 0 for none.
type ScheduleGetResponse struct {
	Schedule          *SnapshotSchedule `level:"2"`
	Next              int64             `level:"2"`
	structs.QueryMeta `level:"2"`
}
