package job_test

import (
	"context"
	"testing"
	"time"

	"berth/endpoints/endpointstest"
	"berth/endpoints/job"
	"berth/fsm"
	"berth/rpc"
	"berth/state"
	"berth/structs"
	"berth/structs/nodecalls"
)

func TestAllocData_GoesToTheNodeOfTheSuccessor(t *testing.T) {
	s := endpointstest.New(t)
	from := s.AddNode("n1", "a")
	s.AddNode("n2", "a")
	s.AddAlloc("a", "n1")
	s.AddAlloc("x", "n2")
	s.Replace("a", "b", "n2")
	var asked []*nodecalls.AllocDataRequest
	from.Answer = func(method string, req, resp any) error {
		if method != nodecalls.ClientAllocData.Name {
			t.Errorf("called %s", method)
		}
		asked = append(asked, req.(*nodecalls.AllocDataRequest))
		page := resp.(*nodecalls.AllocDataResponse)
		page.Entries = []*nodecalls.AllocDataEntry{{Path: "alloc/data/x"}}
		page.Done = true
		return nil
	}
	req := func(ended, successor, node string) *nodecalls.AllocDataRequest {
		return &nodecalls.AllocDataRequest{
			AllocID:   ended,
			Successor: successor,
			After:     "alloc/data/w",
			Offset:    7,
			NodeID:    node,
			SecretID:  endpointstest.SecretOf(node),
		}
	}
	endpointstest.Rejected(s, structs.KindUnavailable, nodecalls.AllocData,
		req("a", "b", "n2")) // it has not ended
	s.EndAlloc("a", "n1")
	for name, r := range map[string]*nodecalls.AllocDataRequest{
		"of another node":         req("a", "b", "n1"),
		"of another job":          req("a", "x", "n2"),
		"of no allocation":        req("a", "y", "n2"),
		"with another secret":     {AllocID: "a", Successor: "b", NodeID: "n2", SecretID: "?"},
		"without a node's secret": {AllocID: "a", Successor: "b", NodeID: "n2"},
	} {
		t.Log(name)
		endpointstest.Rejected(s, structs.KindDenied, nodecalls.AllocData, r)
	}
	endpointstest.Rejected(s, structs.KindPrecondition, nodecalls.AllocData, req("gone", "b", "n2"))
	if len(asked) > 0 {
		t.Fatalf("the node was called: %+v", asked[0])
	}
	full := job.NewAllocs(s.Endpoints.Server)
	full.TakeAllDataPages()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := full.Data(ctx, req("a", "b", "n2"))
	if !structs.IsKind(err, structs.KindUnavailable) || len(asked) > 0 {
		t.Fatalf("beside all other pages: got %v, the node was called %d times", err, len(asked))
	}
	resp := endpointstest.Must(s, nodecalls.AllocData, req("a", "b", "n2"))
	if !resp.Done || len(resp.Entries) != 1 || resp.Entries[0].Path != "alloc/data/x" {
		t.Errorf("got %+v", resp)
	}
	if len(asked) != 1 || asked[0].AllocID != "a" || asked[0].After != "alloc/data/w" || asked[0].Offset != 7 ||
		asked[0].SecretID != "" {
		t.Errorf("the node got %+v", asked)
	}
}

// The node of one allocation gets the data of no other place of its group.
func TestAllocData_IsOfAPredecessor(t *testing.T) {
	s := endpointstest.New(t)
	from := s.AddNode("n1", "a")
	s.AddNode("n2", "a")
	s.AddAlloc("a", "n1", func(g *structs.TaskGroup) { g.Count = 2 })
	s.Replace("a", "b", "n1")
	s.Replace("b", "c", "n2")
	job := state.JobOf(s.Store.Read(), state.Alloc(s.Store.Read(), "a"))
	e := endpointstest.EvalOf(job, structs.TriggerJobRegister, 1)
	e.Status = structs.EvalComplete
	endpointstest.MustPropose(s, fsm.PlanApply, &structs.Plan{
		Eval:           e,
		JobModifyIndex: job.JobModifyIndex,
		Place: []*structs.Allocation{{
			ID:        "other",
			Namespace: "default",
			JobID:     job.ID,
			TaskGroup: "g",
			Name:      structs.AllocName(job.ID, "g", 1),
			NodeID:    "n1",
		}},
	})
	s.Replace("other", "d", "n2") // as one of the other place
	s.EndAlloc("a", "n1")
	s.EndAlloc("b", "n1")
	s.EndAlloc("other", "n1")
	from.Answer = func(string, any, any) error { return nil }
	for pair, kind := range map[[2]string]structs.Kind{
		{"b", "c"}:     "",
		{"a", "c"}:     "", // whose data b did not take
		{"other", "d"}: "", // of another name, and replaced by it
		{"other", "c"}: structs.KindDenied,
	} {
		_, err := rpc.Call(t.Context(), s.RPC, nodecalls.AllocData, &nodecalls.AllocDataRequest{
			AllocID:   pair[0],
			Successor: pair[1],
			NodeID:    "n2",
			SecretID:  endpointstest.SecretOf("n2"),
		})
		if structs.KindOf(err) != kind {
			t.Errorf("the data of %s for %s: %v; expected %q", pair[0], pair[1], err, kind)
		}
	}

	s.EndAlloc("c", "n2")
	endpointstest.Rejected(s, structs.KindDenied, nodecalls.AllocData, &nodecalls.AllocDataRequest{
		AllocID:   "b",
		Successor: "c", // which has ended
		NodeID:    "n2",
		SecretID:  endpointstest.SecretOf("n2"),
	})
}

// A node that waits for data must learn that it cannot come, because it may not read the other node.
func TestAllocData_OfALostNodeDoesNotCome(t *testing.T) {
	s := endpointstest.New(t)
	from := s.AddNode("n1", "a")
	s.AddNode("n2", "a")
	s.AddAlloc("a", "n1")
	s.Replace("a", "b", "n2")
	s.EndAlloc("a", "n1")
	req := &nodecalls.AllocDataRequest{
		AllocID:   "a",
		Successor: "b",
		NodeID:    "n2",
		SecretID:  endpointstest.SecretOf("n2"),
	}
	for _, kind := range []structs.Kind{structs.KindUnavailable, structs.KindTimeout} {
		from.Answer = func(string, any, any) error { return structs.Errorf(kind, "no answer") }
		endpointstest.Rejected(s, kind, nodecalls.AllocData, req)
	}
	s.SetNodeDown("n1")
	endpointstest.WantText(t, endpointstest.Rejected(s, structs.KindPrecondition, nodecalls.AllocData,
		req), "it is down")
	from.Answer = func(string, any, any) error { return structs.Internalf("input/output error") }
	endpointstest.Rejected(s, structs.KindInternal, nodecalls.AllocData, req)
}

func TestAllocDataWaits_TellsANodeOfItsOwnAllocations(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	s.AddNode("n2", "a")
	s.AddAlloc("a", "n1")
	job := *state.Job(s.Store.Read(), "default", state.Alloc(s.Store.Read(), "a").JobID)
	g := *job.TaskGroups[0]
	g.EphemeralDisk = &structs.EphemeralDisk{Sticky: true, Migrate: true}
	job.TaskGroups = []*structs.TaskGroup{&g}
	endpointstest.MustPropose(s, fsm.JobRegister, &structs.JobRegisterRequest{Job: &job})
	s.ReplaceAs("a", "b", "n2", state.Job(s.Store.Read(), "default", job.ID).Version)
	s.EndAlloc("a", "n1")
	req := &nodecalls.AllocDataWaitsRequest{
		AllocIDs: []string{"a"}, NodeID: "n1", SecretID: endpointstest.SecretOf("n1"),
	}
	if got := endpointstest.Must(s, nodecalls.AllocDataWaits, req).Waits; len(got) != 1 || got["a"] != "b" {
		t.Errorf("got %v", got)
	}

	// The node gives the data up after an hour, by the clock of the servers.
	ended := time.Unix(0, state.Alloc(s.Store.Read(), "a").ModifyTime)
	for after, want := range map[time.Duration]int{time.Hour: 1, time.Hour + 1: 0} {
		s.Clock = ended.Add(after)
		req.Keep = time.Hour
		if got := endpointstest.Must(s, nodecalls.AllocDataWaits, req).Waits; len(got) != want {
			t.Errorf("%s after the end: got %v, want %d", after, got, want)
		}
		req.Keep = 0 // the node gives up nothing because of its age
		if got := endpointstest.Must(s, nodecalls.AllocDataWaits, req).Waits; len(got) != 1 {
			t.Errorf("%s after the end, without a bound: got %v", after, got)
		}
	}
	req.SecretID = "?"
	endpointstest.Rejected(s, structs.KindDenied, nodecalls.AllocDataWaits, req)
	endpointstest.Rejected(s, structs.KindInvalid, nodecalls.AllocDataWaits, &nodecalls.AllocDataWaitsRequest{
		AllocIDs: make([]string, structs.MaxAllocIDs+1),
		NodeID:   "n1",
		SecretID: endpointstest.SecretOf("n1"),
	})
}
