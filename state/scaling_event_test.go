package state_test

import (
	"slices"
	"testing"

	"berth/state"
	"berth/structs"
)

// scale registers a job with another count of its group, as a request to scale it does.
func (w *fixture) scale(job string, count int) {
	w.T.Helper()
	j := state.Job(w.Store.Read(), "default", job).Copy()
	g := *j.TaskGroups[0]
	g.Count = count
	j.TaskGroups = []*structs.TaskGroup{&g}
	do(w, state.JobRegister, &structs.JobRegisterRequest{
		Job: j,
		Scaling: &structs.GroupScalingEvent{
			Group: g.Name,
			Event: &structs.ScalingEvent{Count: new(int64(count))},
		},
		WriteOptions: w.Now(),
	})
}

func (w *fixture) scalingEvents(job string) (events []*structs.ScalingEvent) {
	for row := range state.ScalingEventsOf(w.Store.Read(), "default", job) {
		events = append(events, row.Events...)
	}
	return events
}

func TestScalingEvents_KeepTheNewest(t *testing.T) {
	w := newFixture(t)
	w.Job(aJob("web", structs.JobService))
	before := state.Job(w.Store.Read(), "default", "web").TaskGroups[0].Count
	const more = 3
	for n := range structs.MaxScalingEvents + more {
		w.scale("web", 100+n)
	}
	all := w.scalingEvents("web")
	if len(all) != structs.MaxScalingEvents {
		t.Fatalf("there are %d events, want %d", len(all), structs.MaxScalingEvents)
	}
	count := func(e *structs.ScalingEvent) int64 { return *e.Count }
	newest := int64(100 + structs.MaxScalingEvents + more - 1)
	if count(all[0]) != newest || all[0].PreviousCount != newest-1 || all[0].CreateIndex != w.Index ||
		!slices.IsSortedFunc(all, func(a, b *structs.ScalingEvent) int { return int(count(b) - count(a)) }) {
		t.Errorf("the newest event is %+v after the count %d", all[0], before)
	}
}

func TestScalingEvents_EndWithTheirGroupAndJob(t *testing.T) {
	w := newFixture(t)
	w.Job(aJob("web", structs.JobService))
	w.scale("web", 7)
	renamed := state.Job(w.Store.Read(), "default", "web").Copy()
	g := *renamed.TaskGroups[0]
	g.Name = "other"
	renamed.TaskGroups = []*structs.TaskGroup{&g}
	w.Job(renamed)
	w.scale("web", 8)
	if all := w.scalingEvents("web"); len(all) != 1 || *all[0].Count != 8 {
		t.Errorf("the events of a group that is gone are kept: %+v", all)
	}
	do(w, state.JobScalingEvent, &structs.JobScalingEventRequest{
		JobID:             "web",
		GroupScalingEvent: structs.GroupScalingEvent{Group: "other", Event: &structs.ScalingEvent{Message: "quiet"}},
		WriteOptions:      w.Now(),
	})
	do(w, state.JobDeregister, &structs.JobDeregisterRequest{JobID: "web", WriteOptions: w.Now()})
	if all := w.scalingEvents("web"); len(all) != 2 || all[0].Message != "quiet" || all[0].PreviousCount != 8 {
		t.Errorf("the stopped job has the events %+v", all)
	}
	do(w, state.JobDeregister, &structs.JobDeregisterRequest{JobID: "web", Purge: true, WriteOptions: w.Now()})
	if all := w.scalingEvents("web"); len(all) != 0 {
		t.Errorf("the purged job has the events %+v", all)
	}
}
