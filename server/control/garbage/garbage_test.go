package garbage

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"berth/fsm"
	"berth/state"
	"berth/structs"
)

// garbage lists the rows that ended more than keep ago, seen from an hour later.
func (w *testEnv) garbage(keep time.Duration) (r structs.ReapRequest) {
	c := Collection{Keep: Thresholds{
		Eval: keep,
		Job:  keep,
		Node: keep,
	}, Now: time.Now().Add(time.Hour)}
	for _, e := range c.listGarbage(w.Store.Read()) {
		r.Evals, r.Allocs = append(r.Evals, e.Evals...), append(r.Allocs, e.Allocs...)
		r.Jobs, r.Nodes = append(r.Jobs, e.Jobs...), append(r.Nodes, e.Nodes...)
	}
	return r
}

func TestCollection_DeletesOldUnneededRows(t *testing.T) {
	w := newTestEnv(t)
	w.addNode("n1")
	w.addAlloc("a1", "n1")
	w.addClaim("v", "a2", "n1")
	w.addAlloc("a3", "n1")
	for _, id := range []string{"a1", "a2"} {
		put(w, fsm.JobDeregister, &structs.JobDeregisterRequest{
			JobID:        "job-" + id,
			WriteOptions: now(),
			Eval: &structs.Evaluation{
				ID:     "left-" + id,
				JobID:  "job-" + id,
				Status: structs.EvalComplete,
			},
		})
		put(w, fsm.PlanApply, &structs.Plan{
			WriteOptions: now(),
			Eval: &structs.Evaluation{
				ID:     "stop-" + id,
				JobID:  "job-" + id,
				Status: structs.EvalComplete,
			},
			JobModifyIndex: state.Job(w.Store.Read(), "default", "job-"+id).JobModifyIndex,
			Stop:           []*structs.PlanStop{{AllocID: id}},
		})
		w.endAlloc(id, "n1")
	}
	if r := w.garbage(2 * time.Hour); len(r.Allocs)+len(r.Jobs)+len(r.Nodes) != 0 {
		t.Errorf("young garbage %+v", r)
	}
	r := w.garbage(time.Minute)
	if !slices.Equal(r.Allocs, []string{"a1"}) ||
		len(r.Jobs) != 1 || r.Jobs[0].ID != "job-a1" ||
		len(r.Nodes) != 0 {
		t.Errorf("garbage %+v: want a1 and its job; a2 holds a claim, a3 runs", r)
	}
	all := Collection{Now: time.Now()}
	index, err := all.Run(t.Context(), w.Store.Read(), w)
	if err != nil || index != w.Store.Index() {
		t.Errorf("collected at %d, %v; want the index %d", index, err, w.Store.Index())
	}
	tx := w.Store.Read()
	if state.Job(tx, "default", "job-a1") != nil ||
		state.Alloc(tx, "a1") != nil {
		t.Error("ended rows still exist")
	}
	if state.Alloc(tx, "a2") == nil ||
		state.Alloc(tx, "a3") == nil ||
		state.Job(tx, "default", "job-a3") == nil {
		t.Error("needed rows were deleted")
	}
	if r := w.garbage(0); len(r.Allocs)+len(r.Jobs)+len(r.Nodes)+len(r.Evals) != 0 {
		t.Errorf("left after collection: %+v", r)
	}
	w.check()
}

func TestCollection_KeepsTheProofThatABatchJobIsDone(t *testing.T) {
	w := newTestEnv(t)
	w.addNode("n1")
	put(w, fsm.JobRegister, &structs.JobRegisterRequest{
		WriteOptions: now(),
		Job: &structs.Job{
			ID:         "j",
			Type:       structs.JobBatch,
			TaskGroups: []*structs.TaskGroup{{Name: "g", Count: 1}},
		},
		Eval: &structs.Evaluation{
			ID:     "open",
			JobID:  "j",
			Status: structs.EvalPending,
		},
	})
	stored := state.Job(w.Store.Read(), "default", "j")
	put(w, fsm.PlanApply, &structs.Plan{
		JobModifyIndex: stored.JobModifyIndex,
		WriteOptions:   now(),
		Eval: &structs.Evaluation{
			ID:     "e",
			JobID:  "j",
			Status: structs.EvalComplete,
		},
		Place: []*structs.Allocation{{
			ID:        "a1",
			JobID:     "j",
			TaskGroup: "g",
			NodeID:    "n1",
		}},
	})
	w.endAlloc("a1", "n1")
	if r := w.garbage(time.Minute); len(r.Allocs) != 0 || len(r.Jobs) != 0 {
		t.Errorf("garbage %+v although an evaluation is open: it would run its allocation again", r)
	}
}

// An allocation takes over the data of the one that it replaces before it runs.
func TestCollection_DeletesADownNodeThatHoldsNothing(t *testing.T) {
	w := newTestEnv(t)
	w.addNode("n1")
	w.addNode("n2")
	w.addClaim("v", "a2", "n2")
	put(w, fsm.NodeStatus, &structs.NodeStatusUpdate{
		NodeIDs:      []string{"n1", "n2"},
		Status:       structs.NodeDown,
		WriteOptions: now(),
	})
	if r := w.garbage(2 * time.Hour); len(r.Nodes) != 0 {
		t.Errorf("garbage %v", r.Nodes)
	}
	if r := w.garbage(time.Minute); !slices.Equal(r.Nodes, []string{"n1"}) {
		t.Errorf("garbage %v, want n1: n2 holds a claim", r.Nodes)
	}
}

// A failure ends the collection: an evaluation is not deleted before its allocations.
func TestCollection_EndsWithTheFirstFailure(t *testing.T) {
	w := newTestEnv(t)
	w.Fail(structs.Unavailablef("try again"))
	_, err := anHour.Run(context.Background(), storeWithGarbage(t, 5).Read(), w)
	if !structs.IsKind(err, structs.KindUnavailable) || w.Len() != 0 {
		t.Errorf("%d entries, %v", w.Len(), err)
	}
}

// anHour is a collection that keeps all for an hour.
var anHour = Collection{
	Keep: Thresholds{
		Eval: time.Hour,
		Job:  time.Hour,
		Node: time.Hour,
	},
	Now: time.Unix(7200, 0),
}

// storeWithGarbage returns a store of n nodes and n jobs. Each job has a running allocation and an ended
// evaluation. A few have ended long ago.
func storeWithGarbage(t testing.TB, n int) *state.Store {
	store, index := state.New(), uint64(0)
	b := store.Begin()
	apply := func(fn func(tx *state.WriteTx) error) {
		index++
		if err := b.Apply(index, fn); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		id := fmt.Sprintf("%06d", i)
		now := structs.WriteOptions{Now: int64(i + 1)}
		node := &structs.Node{
			ID:       "n" + id,
			Name:     id,
			SecretID: "s",
			Status:   structs.NodeReady,
			NodeResources: &structs.NodeResources{
				CPU:    structs.NodeCPUResources{CpuShares: 4000},
				Memory: structs.NodeMemoryResources{MemoryMB: 4000},
			},
		}
		job := &structs.Job{
			ID:        "j" + id,
			Namespace: "default",
			Type:      structs.JobService,
			TaskGroups: []*structs.TaskGroup{{
				Name:  "g",
				Count: 1,
				Tasks: []*structs.Task{{Name: "t", Driver: "exec"}},
			}},
		}
		apply(func(tx *state.WriteTx) error {
			return state.NodeRegister(tx, &structs.NodeRegisterRequest{Node: node})
		})
		apply(func(tx *state.WriteTx) error {
			return state.JobRegister(tx, &structs.JobRegisterRequest{Job: job})
		})
		apply(func(tx *state.WriteTx) error {
			return state.PlanApply(tx, &structs.Plan{
				JobModifyIndex: index - 1,
				WriteOptions:   now,
				Eval: &structs.Evaluation{
					ID:     "e" + id,
					JobID:  job.ID,
					Status: structs.EvalComplete,
				},
				Place: []*structs.Allocation{{
					ID:        "a" + id,
					JobID:     job.ID,
					TaskGroup: "g",
					NodeID:    node.ID,
					Resources: &structs.Resources{},
				}},
			})
		})
		if i < 5 {
			apply(func(tx *state.WriteTx) error {
				return state.JobDeregister(tx, &structs.JobDeregisterRequest{
					JobID:        job.ID,
					Purge:        true,
					WriteOptions: now,
				})
			})
			apply(func(tx *state.WriteTx) error {
				return state.AllocsClientUpdate(tx, &structs.AllocsClientUpdateRequest{
					WriteOptions: now,
					Allocs:       []*structs.AllocClientUpdate{{ID: "a" + id, ClientStatus: structs.AllocComplete}},
				})
			})
		}
	}
	b.Commit()
	return store
}

func TestCollection_ReadsOnlyGarbage(t *testing.T) {
	cost := func(n int) float64 {
		store := storeWithGarbage(t, n)
		find := func() []*structs.ReapRequest {
			return anHour.listGarbage(store.Read())
		}
		if got := find(); len(got) != 1 || len(got[0].Allocs) != 5 || len(got[0].Evals) != 5 {
			t.Errorf("of %d: %+v", n, got)
		}
		return testing.AllocsPerRun(5, func() { find() })
	}
	few, many := cost(20), cost(3000)
	t.Logf("%.0f allocations of 20, %.0f of 3,000", few, many)
	if many > 2*few+50 {
		t.Errorf("%.0f allocations of 20, %.0f of 3,000", few, many)
	}
}

func BenchmarkGarbage(b *testing.B) {
	for _, n := range []int{10, 1000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			store := storeWithGarbage(b, n)
			b.ReportAllocs()
			for b.Loop() {
				anHour.listGarbage(store.Read())
			}
		})
	}
}

// A failed deployment holds its group: a successor has the version of the allocation that was moved, which
// only the row of that one tells.
func TestCollection_KeepsWhatAHeldGroupReplaces(t *testing.T) {
	w := newTestEnv(t)
	w.addNode("n1")
	w.addAlloc("a", "n1")
	job := *state.Job(w.Store.Read(), "default", "job-a")
	job.TaskGroups = []*structs.TaskGroup{{Name: "g", Count: 1, Meta: map[string]string{"changed": "yes"}}}
	put(w, fsm.JobRegister, &structs.JobRegisterRequest{Job: &job, WriteOptions: now()})
	stored := state.Job(w.Store.Read(), "default", job.ID)
	d := &structs.Deployment{
		ID:         "d",
		Namespace:  job.Namespace,
		JobID:      job.ID,
		JobVersion: stored.Version,
		Status:     structs.DeploymentRunning,
		TaskGroups: map[string]*structs.DeploymentState{"g": {DesiredTotal: 1}},
	}
	put(w, fsm.PlanApply, &structs.Plan{
		WriteOptions:   now(),
		JobModifyIndex: stored.JobModifyIndex,
		Eval:           &structs.Evaluation{ID: "e", JobID: job.ID, Status: structs.EvalComplete},
		Stop:           []*structs.PlanStop{{AllocID: "a"}},
		Deployment:     d,
	})
	w.endAlloc("a", "n1")
	put(w, fsm.DeploymentStatus, &structs.DeploymentStatusRequest{
		WriteOptions: now(),
		DeploymentStatusUpdate: structs.DeploymentStatusUpdate{
			DeploymentID: "d",
			Status:       structs.DeploymentFailed,
		},
	})
	if r := w.garbage(0); len(r.Allocs) > 0 {
		t.Errorf("while its group is held: %v", r.Allocs)
	}
	next := *stored
	next.TaskGroups = job.TaskGroups[:1:1]
	next.Priority = 60
	put(w, fsm.JobRegister, &structs.JobRegisterRequest{Job: &next, WriteOptions: now()})
	if r := w.garbage(0); !slices.Equal(r.Allocs, []string{"a"}) {
		t.Errorf("with a new version: %v", r.Allocs)
	}
}

// The row of an allocation stays while another one is to take over its data: its node would remove the data.
func TestCollection_KeepsDataThatIsAwaited(t *testing.T) {
	w := newTestEnv(t)
	w.addNode("n1")
	w.addNode("n2")
	w.addAlloc("a", "n1")
	job := *state.Job(w.Store.Read(), "default", "job-a")
	job.TaskGroups = []*structs.TaskGroup{{
		Name:          "g",
		Count:         1,
		EphemeralDisk: &structs.EphemeralDisk{Sticky: true, Migrate: true},
	}}
	put(w, fsm.JobRegister, &structs.JobRegisterRequest{Job: &job, WriteOptions: now()})
	stored := state.Job(w.Store.Read(), "default", job.ID)
	put(w, fsm.PlanApply, &structs.Plan{
		WriteOptions:   now(),
		JobModifyIndex: stored.JobModifyIndex,
		Eval:           &structs.Evaluation{ID: "e", JobID: job.ID, Status: structs.EvalComplete},
		Stop:           []*structs.PlanStop{{AllocID: "a"}},
		Place: []*structs.Allocation{{
			ID:                 "b",
			JobID:              job.ID,
			JobVersion:         stored.Version,
			TaskGroup:          "g",
			NodeID:             "n2",
			PreviousAllocation: "a",
		}},
	})
	w.endAlloc("a", "n1")
	if r := w.garbage(0); len(r.Allocs) > 0 {
		t.Errorf("while b waits: %v", r.Allocs)
	}
	put(w, fsm.AllocsClientUpdate, &structs.AllocsClientUpdateRequest{
		NodeID:       "n2",
		WriteOptions: now(),
		Allocs:       []*structs.AllocClientUpdate{{ID: "b", ClientStatus: structs.AllocRunning}},
	})
	if r := w.garbage(0); !slices.Equal(r.Allocs, []string{"a"}) {
		t.Errorf("when b has it: %v", r.Allocs)
	}
}

// placeOnN1 registers a job with a group g and places its allocation a on node n1. It returns the plan.
func placeOnN1(w *testEnv, job *structs.Job) *structs.Plan {
	put(w, fsm.JobRegister, &structs.JobRegisterRequest{Job: job, WriteOptions: now()})
	plan := &structs.Plan{
		WriteOptions:   now(),
		JobModifyIndex: state.Job(w.Store.Read(), "default", job.ID).JobModifyIndex,
		Eval:           &structs.Evaluation{ID: "e", JobID: job.ID, Status: structs.EvalComplete},
		Place: []*structs.Allocation{{
			ID:        "a",
			Name:      structs.AllocName(job.ID, "g", 0),
			JobID:     job.ID,
			TaskGroup: "g",
			NodeID:    "n1",
		}},
	}
	put(w, fsm.PlanApply, plan)
	return plan
}

// An allocation of a system job whose data waits for its node does not keep the row of a node that is gone.
func TestCollection_DeletesANodeWhoseDataWaitsForIt(t *testing.T) {
	w := newTestEnv(t)
	w.addNode("n1")
	job := &structs.Job{ID: "s", Type: structs.JobSystem, TaskGroups: []*structs.TaskGroup{{
		Name:          "g",
		Count:         1,
		EphemeralDisk: &structs.EphemeralDisk{Sticky: true},
	}}}
	plan := placeOnN1(w, job)
	put(w, fsm.NodeStatus, &structs.NodeStatusUpdate{
		NodeIDs:      []string{"n1"},
		Status:       structs.NodeDown,
		WriteOptions: now(),
	})
	plan.Place = nil
	plan.Stop = []*structs.PlanStop{{
		AllocID:      "a",
		Cause:        structs.StopNodeDown,
		ClientStatus: structs.AllocLost,
	}}
	put(w, fsm.PlanApply, plan)
	c := Collection{Keep: Thresholds{Node: 2 * time.Hour}, Now: time.Now().Add(time.Hour)}
	if entries := c.listGarbage(w.Store.Read()); len(entries) > 0 {
		t.Errorf("while the node may come back: %+v", entries[0])
	}
	if r := w.garbage(0); !slices.Equal(r.Allocs, []string{"a"}) || !slices.Equal(r.Nodes, []string{"n1"}) {
		t.Errorf("when the node is gone: %+v", r)
	}
}

// An allocation of a system job that had failed before its node went down is not replaced while the node is
// gone, so it does not keep the row of the node.
func TestCollection_DeletesANodeWithAFailedAllocationOfASystemJob(t *testing.T) {
	w := newTestEnv(t)
	w.addNode("n1")
	job := &structs.Job{ID: "s", Type: structs.JobSystem, TaskGroups: []*structs.TaskGroup{{Name: "g", Count: 1}}}
	placeOnN1(w, job)
	put(w, fsm.AllocsClientUpdate, &structs.AllocsClientUpdateRequest{
		NodeID:       "n1",
		WriteOptions: now(),
		Allocs:       []*structs.AllocClientUpdate{{ID: "a", ClientStatus: structs.AllocFailed}},
	})
	if r := w.garbage(0); len(r.Allocs) > 0 {
		t.Errorf("while the node is there: %+v", r)
	}
	put(w, fsm.NodeStatus, &structs.NodeStatusUpdate{
		NodeIDs:      []string{"n1"},
		Status:       structs.NodeDown,
		WriteOptions: now(),
	})
	c := Collection{Keep: Thresholds{Node: 2 * time.Hour}, Now: time.Now().Add(time.Hour)}
	for _, r := range c.listGarbage(w.Store.Read()) {
		if len(r.Allocs) > 0 {
			t.Errorf("while the node may come back: %+v", r)
		}
	}
	if r := w.garbage(0); !slices.Equal(r.Allocs, []string{"a"}) || !slices.Equal(r.Nodes, []string{"n1"}) {
		t.Errorf("when the node is gone: %+v", r)
	}
}

func TestCollection_KeepsAnEvaluationWithAnAllocationThatStays(t *testing.T) {
	w := newTestEnv(t)
	w.addNode("n1")
	w.addAlloc("a1", "n1")
	stored := state.Job(w.Store.Read(), "default", "job-a1")
	plan := func(id string, place, stop string) {
		p := &structs.Plan{
			WriteOptions:   now(),
			JobModifyIndex: stored.JobModifyIndex,
			Eval:           &structs.Evaluation{ID: id, JobID: stored.ID, Status: structs.EvalComplete},
			Stop:           []*structs.PlanStop{{AllocID: stop}},
		}
		if place != "" {
			p.Place = []*structs.Allocation{{ID: place, JobID: stored.ID, TaskGroup: "g", NodeID: "n1"}}
		}
		put(w, fsm.PlanApply, p)
	}
	plan("e-a1", "a2", "a1") // the evaluation places a second allocation
	w.endAlloc("a1", "n1")
	if r := w.garbage(0); !slices.Equal(r.Allocs, []string{"a1"}) || slices.Contains(r.Evals, "e-a1") {
		t.Errorf("while a2 runs: %+v", r)
	}
	plan("e2", "", "a2")
	w.endAlloc("a2", "n1")
	r := w.garbage(0)
	if len(r.Allocs) != 2 || !slices.Contains(r.Evals, "e-a1") {
		t.Errorf("with both ended: %+v", r)
	}
}
