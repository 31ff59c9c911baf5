package control

import (
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"time"

	"berth/fsm"
	"berth/internal/level"
	"berth/scheduler"
	"berth/state"
	"berth/structs"
	"berth/structs/defaults"
)

// heap returns the size of the heap and the number of its objects.
func heap() (size, objects float64) {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc), float64(m.HeapObjects)
}

// shortJob returns a batch job as users write them.
func shortJob(id string) *structs.Job {
	j := &structs.Job{
		ID:          id,
		Type:        structs.JobBatch,
		Datacenters: []string{"dc1"},
		Meta:        map[string]string{"owner": "storage", "purpose": "load"},
		Constraints: []*structs.Constraint{{LTarget: "${attr.kernel.name}", RTarget: "linux", Operand: "="}},
		TaskGroups: []*structs.TaskGroup{{
			Name:  "work",
			Count: 1,
			Tasks: []*structs.Task{{
				Name:      "main",
				Driver:    "exec",
				Config:    map[string]any{"command": "/bin/sh", "args": []any{"-c", "echo done"}},
				Env:       map[string]string{"KIND": "batch", "LEVEL": "info", "RUN": id},
				Templates: []*structs.Template{{EmbeddedTmpl: "hello", DestPath: "local/hello.txt"}},
				Resources: &structs.Resources{CPU: 20, MemoryMB: 16},
			}},
		}},
	}
	defaults.Canonicalize(j)
	return j
}

// planPending processes the pending evaluations of the jobs.
func (w *testEnv) planPending() {
	w.t.Helper()
	tx := w.Store.Read()
	for e := range state.ReadyEvals(tx) {
		p, err := scheduler.Process(tx, e, time.Now())
		if err != nil {
			w.t.Fatal(err)
		}
		p.Now = time.Now().UnixNano()
		put(w, fsm.PlanApply, p)
	}
}

// reportOf returns what a node reports on an allocation of shortJob.
func reportOf(alloc, status, task string, events ...*structs.TaskEvent) *structs.AllocClientUpdate {
	start := time.Now()
	for i, e := range events {
		e.Time = start.UnixNano() + int64(i)
		e.DisplayMessage = e.Message
	}
	t := &structs.TaskState{State: task, StartedAt: start, Events: events}
	if task == structs.TaskDead {
		t.FinishedAt = start
	}
	return &structs.AllocClientUpdate{
		ID:           alloc,
		ClientStatus: status,
		TaskStates:   map[string]*structs.TaskState{"main": t},
	}
}

// runShortJob registers a job, runs it and purges it.
func (w *testEnv) runShortJob(id string) {
	w.t.Helper()
	eval := func(trigger string) *structs.Evaluation {
		return &structs.Evaluation{ID: structs.NewID(), JobID: id, TriggeredBy: trigger}
	}
	put(w, fsm.JobRegister, &structs.JobRegisterRequest{
		Job:          shortJob(id),
		WriteOptions: now(),
		Eval:         eval(structs.TriggerJobRegister),
		Submission: &structs.JobSubmission{
			Source: fmt.Sprintf("job %q { type = \"batch\" }", id),
			Format: "hcl2",
		},
	})
	w.planPending()
	var alloc *structs.Allocation
	for a := range state.AllocsByJob(w.Store.Read(), structs.DefaultNamespace, id) {
		alloc = a
	}
	if alloc == nil {
		w.t.Fatalf("job %s has no allocation", id)
	}
	report := func(r *structs.AllocClientUpdate) {
		put(w, fsm.AllocsClientUpdate, &structs.AllocsClientUpdateRequest{
			NodeID:       alloc.NodeID,
			WriteOptions: now(),
			Allocs:       []*structs.AllocClientUpdate{r},
		})
	}
	received := structs.TaskEvent{Type: structs.TaskEventReceived, Message: "Task received by client"}
	started := structs.TaskEvent{Type: structs.TaskEventStarted, Message: "Task started by client"}
	exit := &structs.TaskEvent{Type: structs.TaskEventTerminated, Message: "Exit Code: 0"}
	report(reportOf(alloc.ID, structs.AllocRunning, structs.TaskRunning, new(received), new(started)))
	report(reportOf(alloc.ID, structs.AllocComplete, structs.TaskDead, &received, &started, exit))
	w.planPending()
	put(w, fsm.JobDeregister, &structs.JobDeregisterRequest{
		JobID:        id,
		Purge:        true,
		WriteOptions: now(),
		Eval:         eval(structs.TriggerJobDeregister),
	})
	w.planPending()
}

// heapOfShortJobs returns the memory of a job that ran and was purged, until its rows are collected.
func heapOfShortJobs(t testing.TB, jobs int) (size, objects float64) {
	w := newTestEnv(t)
	for n := range 10 {
		w.addSizedNode(fmt.Sprint("n", n), 40, map[string]string{
			"kernel.name":         "linux",
			structs.AttrNodeLevel: strconv.Itoa(level.Now),
		})
	}
	for i := range 1500 { // the readers' memory of changes is full
		w.runShortJob(fmt.Sprintf("first-%05d", i))
	}
	sizeBefore, objectsBefore := heap()
	for i := range jobs {
		w.runShortJob(fmt.Sprintf("then-%05d", i))
	}
	size, objects = heap()
	runtime.KeepAlive(w)
	return (size - sizeBefore) / float64(jobs), (objects - objectsBefore) / float64(jobs)
}

// BenchmarkHeap_EndedJob measures the memory that a short batch job has after its purge, in a store that was
// not restored.
func BenchmarkHeap_EndedJob(b *testing.B) {
	for b.Loop() {
		size, objects := heapOfShortJobs(b, 2000)
		b.ReportMetric(size, "bytes/job")
		b.ReportMetric(objects, "objects/job")
	}
}
