package endpointstest

import (
	"fmt"

	"berth/fsm"
	"berth/state"
	"berth/structs"
)

// AddAlloc places an allocation of a new job on the node.
func (s *Server) AddAlloc(id, node string, edits ...func(*structs.TaskGroup)) {
	s.T.Helper()
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
	MustPropose(s, fsm.JobRegister, &structs.JobRegisterRequest{Job: job})
	stored := state.Job(s.Store.Read(), "default", job.ID)
	e := EvalOf(stored, structs.TriggerJobRegister, 1)
	e.Status = structs.EvalComplete
	MustPropose(s, fsm.PlanApply, &structs.Plan{
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
		s.T.Fatalf("allocation %s was not placed: %s", id, state.Eval(s.Store.Read(), e.ID).StatusDescription)
	}
}

// AddAllocs places n allocations on the node with one plan.
func (s *Server) AddAllocs(prefix, node string, n int) (ids []string) {
	s.T.Helper()
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
	MustPropose(s, fsm.JobRegister, &structs.JobRegisterRequest{Job: job})
	stored := state.Job(s.Store.Read(), "default", job.ID)
	e := EvalOf(stored, structs.TriggerJobRegister, 1)
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
	MustPropose(s, fsm.PlanApply, plan)
	if state.Alloc(s.Store.Read(), ids[n-1]) == nil {
		s.T.Fatalf("%d allocations were not placed: %s", n, state.Eval(s.Store.Read(), e.ID).StatusDescription)
	}
	return ids
}

// EndAlloc reports that an allocation is complete.
func (s *Server) EndAlloc(id, node string) {
	s.T.Helper()
	Must(s, structs.NodeUpdateAllocs, &structs.AllocsClientUpdateRequest{
		NodeID:   node,
		SecretID: SecretOf(node),
		Allocs:   []*structs.AllocClientUpdate{{ID: id, ClientStatus: structs.AllocComplete}},
	})
}

// LoseAlloc gives an allocation up, as the scheduler does when its node is down.
func (s *Server) LoseAlloc(id string) {
	s.T.Helper()
	a := state.Alloc(s.Store.Read(), id)
	job := state.Job(s.Store.Read(), a.Namespace, a.JobID)
	e := EvalOf(job, structs.TriggerNodeUpdate, 1)
	e.Status = structs.EvalComplete
	MustPropose(s, fsm.PlanApply, &structs.Plan{
		Eval:           e,
		JobModifyIndex: job.JobModifyIndex,
		Stop: []*structs.PlanStop{{
			AllocID:      id,
			ClientStatus: structs.AllocLost,
			Description:  "its node is down",
		}},
	})
}

// Replace places a successor of an allocation on a node.
func (s *Server) Replace(old, id, node string) { s.ReplaceAs(old, id, node, 0) }

// ReplaceAs is Replace with a version of the job.
func (s *Server) ReplaceAs(old, id, node string, version uint64) {
	s.T.Helper()
	tx := s.Store.Read()
	row := state.Alloc(tx, old)
	job := state.Job(tx, "default", row.JobID)
	e := EvalOf(job, structs.TriggerJobRegister, 1)
	e.Status = structs.EvalComplete
	MustPropose(s, fsm.PlanApply, &structs.Plan{
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
