package job_test

import (
	"fmt"
	"strings"
	"testing"

	"berth/endpoints/endpointstest"
	"berth/endpoints/job"
	"berth/fsm"
	"berth/state"
	"berth/structs"
)

// evalFixture is a server with an evaluation of each status. The allocation a names e-placed.
func evalFixture(t *testing.T) *endpointstest.Server {
	t.Helper()
	s := endpointstest.New(t)
	s.AddNode("n", "z")
	s.AddAlloc("a", "n")
	for _, e := range []*structs.Evaluation{
		{ID: "e-complete", Status: structs.EvalComplete},
		{ID: "e-failed", Status: structs.EvalFailed},
		{ID: "e-cancelled", Status: structs.EvalCancelled},
		{ID: "e-other", Status: structs.EvalFailed, Namespace: "other"},
		{ID: "e-blocked", Status: structs.EvalBlocked, BlockedOn: []string{structs.WakeCapacity}},
		{ID: "e-pending", Status: structs.EvalPending},
	} {
		e.JobID = "job-of-" + e.ID
		endpointstest.MustPropose(s, fsm.EvalUpdate, &structs.EvalUpdateRequest{Evals: []*structs.Evaluation{e}})
	}
	return s
}

// placedEval returns the evaluation that the allocation a names.
func placedEval(t *testing.T, s *endpointstest.Server) string {
	t.Helper()
	id := state.Alloc(s.Store.Read(), "a").EvalID
	if e := state.Eval(s.Store.Read(), id); e == nil || !e.Placed {
		t.Fatalf("the evaluation of the allocation is %+v", e)
	}
	return id
}

func TestEvalCount_CountsThoseThatListShows(t *testing.T) {
	s := evalFixture(t)
	for _, req := range []structs.EvalListRequest{
		{},
		{QueryOptions: structs.QueryOptions{Namespace: "*"}},
		{QueryOptions: structs.QueryOptions{Namespace: "other"}},
		{QueryOptions: structs.QueryOptions{Prefix: "e-c"}},
		{QueryOptions: structs.QueryOptions{Namespace: "*", Filter: `Status == "failed"`}},
		{QueryOptions: structs.QueryOptions{Filter: `Status == "nothing"`}},
		{JobID: "job-of-e-failed"},
		{Status: structs.EvalFailed},
	} {
		list := endpointstest.Must(s, structs.EvalList, &req)
		count := endpointstest.Must(s, structs.EvalCount, &req)
		if count.Count != len(list.Evaluations) || count.Index == 0 {
			t.Errorf("%+v: counted %d at %d, listed %d", req, count.Count, count.Index, len(list.Evaluations))
		}
	}
	bad := &structs.EvalListRequest{QueryOptions: structs.QueryOptions{Filter: "Status =="}}
	endpointstest.Rejected(s, structs.KindInvalid, structs.EvalCount, bad)
}

func TestEvalDelete_ByIDIsAllOrNothing(t *testing.T) {
	s := evalFixture(t)
	placed := placedEval(t, s)
	for ids, kind := range map[string]structs.Kind{
		"e-complete,e-none":    structs.KindNotFound,
		"e-complete,e-pending": structs.KindConflict,
		"e-complete,e-blocked": structs.KindConflict,
		"e-complete," + placed: structs.KindConflict,
	} {
		req := &structs.EvalDeleteRequest{EvalIDs: strings.Split(ids, ",")}
		err := endpointstest.Rejected(s, kind, structs.EvalDelete, req)
		left := state.Eval(s.Store.Read(), "e-complete")
		if !strings.Contains(err.Error(), "nothing was deleted") || left == nil {
			t.Errorf("%s: %v", ids, err)
		}
	}
	both := &structs.EvalDeleteRequest{EvalIDs: []string{"e-complete"}, Filter: `Status == "failed"`}
	endpointstest.Rejected(s, structs.KindInvalid, structs.EvalDelete, both)
	endpointstest.Rejected(s, structs.KindInvalid, structs.EvalDelete, &structs.EvalDeleteRequest{})
	many := make([]string, structs.MaxEvalIDs+1)
	endpointstest.Rejected(s, structs.KindInvalid, structs.EvalDelete, &structs.EvalDeleteRequest{EvalIDs: many})

	ids := []string{"e-complete", "e-failed", "e-complete"}
	resp := endpointstest.Must(s, structs.EvalDelete, &structs.EvalDeleteRequest{EvalIDs: ids})
	if resp.Count != 2 || resp.Index == 0 ||
		state.Eval(s.Store.Read(), "e-complete") != nil || state.Eval(s.Store.Read(), "e-failed") != nil {
		t.Errorf("deleted %+v", resp)
	}
}

func TestEvalDelete_ByFilterPassesOverTheOthers(t *testing.T) {
	s := evalFixture(t)
	placed := placedEval(t, s)
	req := &structs.EvalDeleteRequest{Filter: `Status != "canceled"`}
	if resp := endpointstest.Must(s, structs.EvalDelete, req); resp.Count != 2 {
		t.Errorf("deleted %d evaluations, want 2", resp.Count)
	}
	for id, there := range map[string]bool{
		"e-complete":  false,
		"e-failed":    false,
		"e-cancelled": true,
		"e-other":     true,
		"e-blocked":   true,
		"e-pending":   true,
		placed:        true,
	} {
		if (state.Eval(s.Store.Read(), id) != nil) != there {
			t.Errorf("%s: want it there: %v", id, there)
		}
	}
	req = &structs.EvalDeleteRequest{Filter: "Status == 7 and"}
	endpointstest.Rejected(s, structs.KindInvalid, structs.EvalDelete, req)
}

// TestEvalDelete_DeletesManyInSeveralEntries deletes more evaluations than one log entry holds.
func TestEvalDelete_DeletesManyInSeveralEntries(t *testing.T) {
	s := endpointstest.New(t)
	var evals []*structs.Evaluation
	for i := range 2*job.DeleteBatch + 1 {
		evals = append(evals, &structs.Evaluation{
			ID:     fmt.Sprintf("e%05d", i),
			JobID:  "j",
			Status: structs.EvalFailed,
		})
	}
	endpointstest.MustPropose(s, fsm.EvalUpdate, &structs.EvalUpdateRequest{Evals: evals})
	before := s.Raft.Len()
	resp := endpointstest.Must(s, structs.EvalDelete, &structs.EvalDeleteRequest{Filter: `JobID == "j"`})
	if resp.Count != len(evals) || s.Raft.Len()-before != 3 {
		t.Errorf("deleted %d in %d entries", resp.Count, s.Raft.Len()-before)
	}
	if n := endpointstest.Must(s, structs.EvalCount, &structs.EvalListRequest{}).Count; n != 0 {
		t.Errorf("%d evaluations are left", n)
	}
}
