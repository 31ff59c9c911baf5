package endpoints

import (
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
