// Package snapschedules has the routes of schedules of snapshots, each with the call of the client.
package snapschedules

import (
	"context"
	"net/url"

	"berth/api"
	"berth/internal/conf"
	"berth/structs/storage"
)

// The dialect has none of these routes.
var list = api.NewEndpoint(api.Get, "/v1/volume/snapshot-schedules",
	api.ServeMethod(storage.ScheduleList, bindList,
		func(a *storage.ScheduleListResponse) []*storage.SnapshotSchedule { return a.Schedules }))

func bindList(c *api.Call, q *storage.ScheduleListRequest) error {
	q.VolumeID = c.Param("volume_id")
	return nil
}

// List lists the schedules of a namespace, those of one volume unless it is "".
func List(ctx context.Context, c *api.Client, volume string) ([]*storage.SnapshotSchedule, error) {
	params := url.Values{}
	if volume != "" {
		params.Set("volume_id", volume)
	}
	return list.Send(ctx, c, api.Request{Query: params})
}

const path = "/v1/volume/snapshot-schedule/{id}"

// Shown is a schedule with its next time in UnixNano, 0 for none.
type Shown struct {
	*storage.SnapshotSchedule
	Next int64
}

var get = api.NewEndpoint(api.Get, path, api.ServeMethod(storage.ScheduleGet,
	api.WithID(func(q *storage.ScheduleGetRequest, name string) { q.ScheduleName = name }),
	func(a *storage.ScheduleGetResponse) *Shown { return &Shown{a.Schedule, a.Next} }))

// Get reads a schedule.
func Get(ctx context.Context, c *api.Client, name string) (*Shown, error) {
	s, _, err := get.Fetch(ctx, c, name, nil)
	return s, err
}

var put = api.NewEndpoint(api.Put, path, api.ServeMethod(storage.SchedulePut, bindPut, api.Whole))

func bindPut(c *api.Call, req *storage.SchedulePutRequest) error {
	req.Schedule = &storage.SnapshotSchedule{}
	err := c.DecodeBody(req.Schedule)
	if err == nil {
		err = c.SameID("schedule", req.Schedule.Name)
	}
	req.Schedule.Name = c.ID()
	return err
}

// Decode decodes a schedule from the JSON of the API, as strictly as the API does.
func Decode(src []byte) (*storage.SnapshotSchedule, error) {
	row := &storage.SnapshotSchedule{}
	err := conf.DecodeJSON(src, row, nil)
	return row, err
}

// Put creates or changes a schedule.
func Put(ctx context.Context, c *api.Client, s *storage.SnapshotSchedule) error {
	return put.Exec(ctx, c, api.Request{ID: s.Name, Body: s})
}

// pausing is the body of a request to pause or resume.
type pausing struct{ Paused bool }

var pause = api.NewEndpoint(
	api.Put, path+"/pause", api.ServeMethod(storage.SchedulePause, bindPause, api.Whole))

func bindPause(c *api.Call, req *storage.SchedulePauseRequest) error {
	var b pausing
	err := c.DecodeBody(&b)
	req.ScheduleName = c.ID()
	req.Paused = b.Paused
	return err
}

// Pause pauses or resumes a schedule.
func Pause(ctx context.Context, c *api.Client, name string, paused bool) error {
	return pause.Exec(ctx, c, api.Request{ID: name, Body: pausing{paused}})
}

var remove = api.NewEndpoint(api.Remove, path, api.ServeMethod(storage.ScheduleDelete,
	api.WithID(func(q *storage.ScheduleDeleteRequest, name string) { q.ScheduleName = name }), api.Whole))

// Delete deletes a schedule. Its snapshots stay.
func Delete(ctx context.Context, c *api.Client, name string) error {
	return remove.Exec(ctx, c, api.Request{ID: name})
}
