package endpoints

import (
	"fmt"

	"berth/fsm"
	"berth/state"
	"berth/structs"
)

// addAlloc places an allocation of a new job on the node.
func (s *server) addAlloc(id, node string, edits ...func(*structs.TaskGroup)) {
	s.t.Helper()
	job := &structs.Job{
		ID:        "job-" + id,
		Namespace: "default",
		Type:      structs.JobService,
		TaskGroups: []*structs.TaskGroup{
			{
				Name:  "g",
				Count: 1,
				Tasks: []*structs.Task{{Name: "t", Driver: "exec"}},
			}},
	}
	for _, edit := range edits {
		edit(job.TaskGroups[0])
	}
	mustPropose(s, fsm.JobRegister, &structs.JobRegisterRequest{Job: job})
	stored := state.Job(s.Store.Read(), "default", job.ID)
	e := evalOf(stored, structs.TriggerJobRegister, 1)
	e.Status = structs.EvalComplete
	mustPropose(s, fsm.PlanApply, &structs.Plan{
		Eval:           e,
		JobModifyIndex: stored.JobModifyIndex,
		Place: []*structs.Allocation{
			{
				ID:        id,
				Namespace: "default",
				JobID:     job.ID,
				TaskGroup: "g",
				Name:      structs.AllocName(job.ID, "g", 0),
				NodeID:    node,
			}},
	})
	if state.Alloc(s.Store.Read(), id) == nil {
		s.t.Fatalf("allocation %s was not placed: %s", id, state.Eval(s.Store.Read(), e.ID).StatusDescription)
	}
}

// addAllocs places n allocations on the node with one plan.
func (s *server) addAllocs(prefix, node string, n int) (ids []string) {
	s.t.Helper()
	job := &structs.Job{
		ID:        "job-" + prefix,
		Namespace: "default",
		Type:      structs.JobService,
		TaskGroups: []*structs.TaskGroup{
			{
				Name:  "g",
				Count: n,
				Tasks: []*structs.Task{{Name: "t", Driver: "exec"}},
			}},
	}
	mustPropose(s, fsm.JobRegister, &structs.JobRegisterRequest{Job: job})
	stored := state.Job(s.Store.Read(), "default", job.ID)
	e := evalOf(stored, structs.TriggerJobRegister, 1)
	e.Status = structs.EvalComplete
	plan := &structs.Plan{Eval: e, JobModifyIndex: stored.JobModifyIndex}
	for i := range n {
		id := fmt.Sprintf("%s%05d", prefix, i)
		ids = append(ids, id)
		plan.Place = append(plan.Place, &structs.Allocation{
			ID:        id,
			Namespace: "default",
			JobID:     job.ID,
			TaskGroup: "g",
			Name:      structs.AllocName(job.ID, "g", i),
			NodeID:    node,
		})
	}
	mustPropose(s, fsm.PlanApply, plan)
	if state.Alloc(s.Store.Read(), ids[n-1]) == nil {
		s.t.Fatalf("%d allocations were not placed: %s", n, state.Eval(s.Store.Read(), e.ID).StatusDescription)
	}
	return ids
}

func (s *server) endAlloc(id, node string) {
	s.t.Helper()
	must(s, structs.NodeUpdateAllocs, &structs.AllocsClientUpdateRequest{
		NodeID:   node,
		SecretID: secretOf(node),
		Allocs:   []*structs.AllocClientUpdate{{ID: id, ClientStatus: structs.AllocComplete}},
	})
}

// loseAlloc gives an allocation up, as the scheduler does when its node is down.
func (s *server) loseAlloc(id string) {
	s.t.Helper()
	a := state.Alloc(s.Store.Read(), id)
	job := state.Job(s.Store.Read(), a.Namespace, a.JobID)
	e := evalOf(job, structs.TriggerNodeUpdate, 1)
	e.Status = structs.EvalComplete
	mustPropose(s, fsm.PlanApply, &structs.Plan{
		Eval:           e,
		JobModifyIndex: job.JobModifyIndex,
		Stop: []*structs.PlanStop{{
			AllocID:      id,
			ClientStatus: structs.AllocLost,
			Description:  "its node is down",
		}},
	})
}

// replace places a successor of an allocation on a node.
func (s *server) replace(old, id, node string) { s.replaceAs(old, id, node, 0) }

func (s *server) replaceAs(old, id, node string, version uint64) {
	s.t.Helper()
	tx := s.Store.Read()
	row := state.Alloc(tx, old)
	job := state.Job(tx, "default", row.JobID)
	e := evalOf(job, structs.TriggerJobRegister, 1)
	e.Status = structs.EvalComplete
	mustPropose(s, fsm.PlanApply, &structs.Plan{
		Eval:           e,
		JobModifyIndex: job.JobModifyIndex,
		Stop:           []*structs.PlanStop{{AllocID: old}},
		Place: []*structs.Allocation{{
			ID:                 id,
			Namespace:          "default",
			JobID:              job.ID,
			JobVersion:         version,
			TaskGroup:          "g",
			Name:               structs.AllocName(job.ID, "g", 0),
			NodeID:             node,
			PreviousAllocation: old,
		}},
	})
}
