package scheduler

import (
	"testing"

	"berth/state"
	"berth/structs"
)

// A node that was cut off reports, when it is back, how a lost allocation of a batch job has ended. The job
// places no other one if the tasks have done their work. It places one if the node has stopped them.
func TestLostNode_DoesNoWorkTwice(t *testing.T) {
	event := func(kind string, code int) *structs.TaskEvent {
		return &structs.TaskEvent{Type: kind, ExitCode: code}
	}
	for name, c := range map[string]struct {
		status string
		events []*structs.TaskEvent
		want   string
	}{
		"done": {structs.AllocComplete, []*structs.TaskEvent{event(structs.TaskEventTerminated, 0)}, ""},
		"stopped": {structs.AllocComplete, []*structs.TaskEvent{
			event(structs.TaskEventKilling, 0), event(structs.TaskEventKilled, 0)}, "0@n1"},
		"stopped before its next try": {structs.AllocComplete, []*structs.TaskEvent{
			event(structs.TaskEventTerminated, 1), event(structs.TaskEventRestarting, 0)}, "0@n1"},
		"never begun": {structs.AllocComplete, nil, "0@n1"},
		"failed":      {structs.AllocFailed, []*structs.TaskEvent{event(structs.TaskEventTerminated, 1)}, "0@n1"},
	} {
		for _, kind := range []string{structs.JobBatch, structs.JobSysBatch} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				w := running(t, aJob("sum", kind), "n1")
				a := w.allocs("sum")[0]
				w.client(a, structs.AllocRunning)
				w.status("n1", structs.NodeDown)
				w.run("sum")
				do(w, state.AllocsClientUpdate, &structs.AllocsClientUpdateRequest{
					WriteOptions: w.now(),
					Allocs: []*structs.AllocClientUpdate{{
						ID:           a.ID,
						ClientStatus: c.status,
						TaskStates: map[string]*structs.TaskState{"t": {
							State:  structs.TaskDead,
							Failed: c.status == structs.AllocFailed,
							Events: c.events,
						}},
					}},
				})
				w.status("n1", structs.NodeReady)
				w.run("sum")
				w.wantPlaced("sum", c.want)
				blocked := state.BlockedEval(w.s.Read(), structs.DefaultNamespace, "sum")
				if kind == structs.JobBatch && blocked != nil {
					t.Errorf("the job waits for %v", blocked.BlockedOn)
				}
			})
		}
	}
}
