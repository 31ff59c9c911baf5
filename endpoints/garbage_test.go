package endpoints

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"berth/fsm"
	"berth/state"
	"berth/structs"
)

func (s *server) garbage(keep time.Duration) (r structs.ReapRequest) {
	for _, e := range Garbage(s.store.Read(), GCThresholds{Eval: keep, Job: keep, Node: keep}, s.clock, 1) {
		r.Evals, r.Allocs = append(r.Evals, e.Evals...), append(r.Allocs, e.Allocs...)
		r.Jobs, r.Nodes = append(r.Jobs, e.Jobs...), append(r.Nodes, e.Nodes...)
	}
	return r
}

func TestGarbageIsWhatHasEndedLongAgoAndIsNotNeeded(t *testing.T) {
	s := newServer(t)
	s.addNode("n1", "a")
	s.addVolume("v")
	for _, id := range []string{"a1", "a2", "a3"} {
		s.addAlloc(id, "n1")
	}
	s.claim("v", "a2", "n1")
	for _, id := range []string{"a1", "a2"} {
		must(s, structs.JobDeregister, &structs.JobDeregisterRequest{JobID: "job-" + id})
		proposed(s, fsm.PlanApply, &structs.Plan{Eval: &structs.Evaluation{ID: "stop-" + id, JobID: "job-" + id, Status: structs.EvalComplete},
			JobModifyIndex: state.Job(s.store.Read(), "default", "job-"+id).JobModifyIndex, Stop: []*structs.PlanStop{{AllocID: id}}})
		s.endAlloc(id, "n1")
		for e := range state.EvalsByJob(s.store.Read(), "default", "job-"+id) {
			e = e.Copy()
			e.Status = structs.EvalComplete
			proposed(s, fsm.EvalUpdate, &structs.EvalUpdateRequest{Evals: []*structs.Evaluation{e}})
		}
	}
	s.clock = s.clock.Add(time.Hour)
	if r := s.garbage(2 * time.Hour); len(r.Allocs)+len(r.Jobs)+len(r.Nodes) != 0 {
		t.Errorf("young garbage %+v", r)
	}
	r := s.garbage(time.Minute)
	if !slices.Equal(r.Allocs, []string{"a1"}) || len(r.Jobs) != 1 || r.Jobs[0].ID != "job-a1" || len(r.Nodes) != 0 {
		t.Errorf("garbage %+v: want a1 and its job; a2 holds a claim, a3 runs", r)
	}
	must(s, structs.SystemGC, &structs.WriteRequest{})
	tx := s.store.Read()
	if state.Job(tx, "default", "job-a1") != nil || state.Alloc(tx, "a1") != nil {
		t.Error("what has ended is still there")
	}
	if state.Alloc(tx, "a2") == nil || state.Alloc(tx, "a3") == nil || state.Job(tx, "default", "job-a3") == nil {
		t.Error("what is needed was deleted")
	}
	if r := s.garbage(0); len(r.Allocs)+len(r.Jobs)+len(r.Nodes)+len(r.Evals) != 0 {
		t.Errorf("left after collection: %+v", r)
	}
	if faults := state.Check(tx); len(faults) != 0 {
		t.Error(faults)
	}
}

func TestABatchJobThatIsDoneIsNotRunAgain(t *testing.T) {
	s := newServer(t)
	s.addNode("n1", "a")
	job := aJob("j")
	job.Type, job.TaskGroups[0].Volumes = structs.JobBatch, nil
	must(s, structs.JobRegister, &structs.JobRegisterRequest{Job: job})
	stored := state.Job(s.store.Read(), "default", "j")
	proposed(s, fsm.PlanApply, &structs.Plan{JobModifyIndex: stored.JobModifyIndex, Eval: &structs.Evaluation{ID: "e", JobID: "j", Status: structs.EvalComplete},
		Place: []*structs.Allocation{{ID: "a1", JobID: "j", TaskGroup: "g", NodeID: "n1"}}})
	s.endAlloc("a1", "n1")
	s.clock = s.clock.Add(time.Hour)
	if r := s.garbage(time.Minute); len(r.Allocs) != 0 || len(r.Jobs) != 0 {
		t.Errorf("garbage %+v, though an evaluation is open: without its allocation it would run again", r)
	}
}

func TestANodeThatIsDownGoesWhenNothingIsLeftOnIt(t *testing.T) {
	s := newServer(t)
	s.addNode("n1", "a")
	s.addNode("n2", "a")
	s.addAlloc("a2", "n2")
	s.addVolume("v")
	s.claim("v", "a2", "n2")
	proposed(s, fsm.NodeStatus, &structs.NodeStatusUpdate{NodeIDs: []string{"n1", "n2"}, Status: structs.NodeDown,
		WriteOptions: structs.WriteOptions{Now: s.clock.UnixNano()}})
	s.clock = s.clock.Add(time.Hour)
	if r := s.garbage(2 * time.Hour); len(r.Nodes) != 0 {
		t.Errorf("garbage %v", r.Nodes)
	}
	if r := s.garbage(time.Minute); !slices.Equal(r.Nodes, []string{"n1"}) {
		t.Errorf("garbage %v, want n1: n2 holds a claim", r.Nodes)
	}
}

// crowded is a store of n jobs with an allocation each, that run, and whose evaluations have ended; and as many
// nodes. A few have ended long ago.
func crowded(t testing.TB, n int) *state.Store {
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
		node := &structs.Node{ID: "n" + id, Name: id, SecretID: "s", Status: structs.NodeReady,
			NodeResources: &structs.NodeResources{CPU: structs.NodeCPUResources{CpuShares: 4000}, Memory: structs.NodeMemoryResources{MemoryMB: 4000}}}
		job := &structs.Job{ID: "j" + id, Namespace: "default", Type: structs.JobService,
			TaskGroups: []*structs.TaskGroup{{Name: "g", Count: 1, Tasks: []*structs.Task{{Name: "t", Driver: "exec"}}}}}
		apply(func(tx *state.WriteTx) error { return state.NodeRegister(tx, &structs.NodeRegisterRequest{Node: node}) })
		apply(func(tx *state.WriteTx) error { return state.JobRegister(tx, &structs.JobRegisterRequest{Job: job}) })
		apply(func(tx *state.WriteTx) error {
			return state.PlanApply(tx, &structs.Plan{JobModifyIndex: index - 1, WriteOptions: now,
				Eval:  &structs.Evaluation{ID: "e" + id, JobID: job.ID, Status: structs.EvalComplete},
				Place: []*structs.Allocation{{ID: "a" + id, JobID: job.ID, TaskGroup: "g", NodeID: node.ID, Resources: &structs.Resources{}}}})
		})
		if i < 5 {
			apply(func(tx *state.WriteTx) error {
				return state.JobDeregister(tx, &structs.JobDeregisterRequest{JobID: job.ID, Purge: true, WriteOptions: now})
			})
			apply(func(tx *state.WriteTx) error {
				return state.AllocsClientUpdate(tx, &structs.AllocsClientUpdateRequest{WriteOptions: now,
					Allocs: []*structs.AllocClientUpdate{{ID: "a" + id, ClientStatus: structs.AllocComplete}}})
			})
		}
	}
	b.Commit()
	return store
}

// TestGarbageIsFoundWithoutLookingAtTheRest, however much of it there is.
func TestGarbageIsFoundWithoutLookingAtTheRest(t *testing.T) {
	cost := func(n int) float64 {
		store := crowded(t, n)
		find := func() []*structs.ReapRequest {
			return Garbage(store.Read(), GCThresholds{Eval: time.Hour, Job: time.Hour, Node: time.Hour}, time.Unix(7200, 0), 512)
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
			store := crowded(b, n)
			b.ReportAllocs()
			for b.Loop() {
				Garbage(store.Read(), GCThresholds{Eval: time.Hour, Job: time.Hour, Node: time.Hour}, time.Unix(7200, 0), 512)
			}
		})
	}
}
