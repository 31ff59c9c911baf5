package volumes

import (
	"context"
	"net/url"

	"berth/api"
	"berth/internal/conf"
	"berth/structs/storage"
)

// The dialect has none of these routes.
var scheduleList = api.NewEndpoint(&table, api.Get, "/v1/volume/snapshot-schedules",
	api.ServeMethod(storage.ScheduleList, bindScheduleList,
		func(a *storage.ScheduleListResponse) []*storage.SnapshotSchedule { return a.Schedules }))

func bindScheduleList(c *api.Call, q *storage.ScheduleListRequest) error {
	q.VolumeID = c.Param("volume_id")
	return nil
}

// ListSchedules lists the schedules of a namespace, or of one volume unless it is "".
func ListSchedules(ctx context.Context, c *api.Client, volume string) ([]*storage.SnapshotSchedule, error) {
	params := url.Values{}
	if volume != "" {
		params.Set("volume_id", volume)
	}
	return scheduleList.Send(ctx, c, api.Request{Query: params})
}

const schedulePath = "/v1/volume/snapshot-schedule/{id}"

// ShownSchedule is a schedule with its next time in UnixNano, 0 for none.
type ShownSchedule struct {
	*storage.SnapshotSchedule
	Next int64
}

var scheduleGet = api.NewEndpoint(&table, api.Get, schedulePath, api.ServeMethod(storage.ScheduleGet,
	api.WithID(func(q *storage.ScheduleGetRequest, name string) { q.ScheduleName = name }),
	func(a *storage.ScheduleGetResponse) *ShownSchedule { return &ShownSchedule{a.Schedule, a.Next} }))

// GetSchedule reads a schedule.
func GetSchedule(ctx context.Context, c *api.Client, name string) (*ShownSchedule, error) {
	s, _, err := scheduleGet.Fetch(ctx, c, name, nil)
	return s, err
}

var schedulePut = api.NewEndpoint(&table, api.Put, schedulePath,
	api.ServeMethod(storage.SchedulePut, bindSchedulePut, api.Whole))

func bindSchedulePut(c *api.Call, req *storage.SchedulePutRequest) error {
	req.Schedule = &storage.SnapshotSchedule{}
	err := c.DecodeBody(req.Schedule)
	if err == nil {
		err = c.SameID("schedule", req.Schedule.Name)
	}
	req.Schedule.Name = c.ID()
	return err
}

// DecodeSchedule decodes a schedule from the JSON of the API, as strictly as the API does.
func DecodeSchedule(src []byte) (*storage.SnapshotSchedule, error) {
	row := &storage.SnapshotSchedule{}
	err := conf.DecodeJSON(src, row, nil)
	return row, err
}

// PutSchedule creates or changes a schedule.
func PutSchedule(ctx context.Context, c *api.Client, s *storage.SnapshotSchedule) error {
	return schedulePut.Exec(ctx, c, api.Request{ID: s.Name, Body: s})
}

// pauseBody is the body of a request to pause or resume.
type pauseBody struct{ Paused bool }

var schedulePause = api.NewEndpoint(&table,
	api.Put, schedulePath+"/pause", api.ServeMethod(storage.SchedulePause, bindSchedulePause, api.Whole))

func bindSchedulePause(c *api.Call, req *storage.SchedulePauseRequest) error {
	var b pauseBody
	err := c.DecodeBody(&b)
	req.ScheduleName = c.ID()
	req.Paused = b.Paused
	return err
}

// PauseSchedule pauses or resumes a schedule.
func PauseSchedule(ctx context.Context, c *api.Client, name string, paused bool) error {
	return schedulePause.Exec(ctx, c, api.Request{ID: name, Body: pauseBody{paused}})
}

var scheduleRemove = api.NewEndpoint(&table, api.Remove, schedulePath, api.ServeMethod(storage.ScheduleDelete,
	api.WithID(func(q *storage.ScheduleDeleteRequest, name string) { q.ScheduleName = name }), api.Whole))

// DeleteSchedule deletes a schedule. Its snapshots stay.
func DeleteSchedule(ctx context.Context, c *api.Client, name string) error {
	return scheduleRemove.Exec(ctx, c, api.Request{ID: name})
}
