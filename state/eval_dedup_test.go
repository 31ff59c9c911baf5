package state_test

import (
	"fmt"
	"slices"
	"testing"

	"berth/state"
	"berth/structs"
	"berth/test/kit"
)

// pendingNodes returns the nodes of the pending evaluations of a job; "" means all nodes.
func pendingNodes(tx *state.ReadTx, job string) (out []string) {
	for e := range state.ReadyEvals(tx) {
		if e.JobID == job {
			out = append(out, e.NodeID)
		}
	}
	return out
}

// TestEvalDedup_OfARegisteringFleet bounds the number and the cost of the evaluations of a system job.
func TestEvalDedup_OfARegisteringFleet(t *testing.T) {
	w := &uncheckedStore{s: state.New()}
	w.do(func(tx *state.WriteTx) {
		kit.Must(t, state.JobRegister(tx, &structs.JobRegisterRequest{Job: aJob("csi", structs.JobSystem)}))
	})
	n := 0
	register := func() {
		n++
		w.do(func(tx *state.WriteTx) {
			kit.Must(t, state.NodeRegister(tx, &structs.NodeRegisterRequest{Node: aNode(fmt.Sprintf("n%05d", n))}))
		})
	}
	for range state.ManyNodes {
		register()
	}
	if got := pendingNodes(w.s.Read(), "csi"); len(got) != state.ManyNodes ||
		slices.Contains(got, "") {
		t.Errorf("got evaluations of nodes %q, want one for each node", got)
	}
	for range 100 {
		register()
	}
	few := testing.AllocsPerRun(50, register)
	for range 5000 {
		register()
	}
	many := testing.AllocsPerRun(50, register)
	t.Logf("a node registers: %.0f allocations after 100 nodes, %.0f after 5,000", few, many)
	if many > 2*few {
		t.Errorf("a node registers: %.0f allocations after 100 nodes, %.0f after 5,000", few, many)
	}
	got := pendingNodes(w.s.Read(), "csi")
	if len(got) != state.ManyNodes+1 || got[state.ManyNodes] != "" {
		t.Errorf("got %d pending evaluations %q, want the last for all nodes", len(got), got)
	}
}

// TestEvalDedup_KeepsAChangeThatThePlanHasNotSeen changes a node while its evaluation is in process.
func TestEvalDedup_KeepsAChangeThatThePlanHasNotSeen(t *testing.T) {
	for _, kind := range []string{structs.JobSystem, structs.JobService} {
		for _, way := range []string{"plan", "given up"} {
			t.Run(kind+" "+way, func(t *testing.T) {
				w := newFixture(t)
				w.Node("n1")
				j := w.Job(aJob("j", kind))
				p := w.Plan(j)
				p.Place = []*structs.Allocation{{
					ID:        "a",
					JobID:     "j",
					TaskGroup: "g",
					NodeID:    "n1",
				}}
				do(w, state.PlanApply, p)
				toggle := func(to string) {
					do(w, state.NodeEligibility, &structs.NodeEligibilityRequest{
						NodeID:       "n1",
						Eligibility:  to,
						WriteOptions: w.Now(),
					})
				}
				finish := func(e *structs.Evaluation) {
					e = e.Copy()
					if way == "plan" {
						e.Status = structs.EvalComplete
						do(w, state.PlanApply, &structs.Plan{
							Eval:           e,
							JobModifyIndex: j.JobModifyIndex,
							WriteOptions:   w.Now(),
						})
					} else {
						e.Status = structs.EvalFailed
						do(w, state.EvalUpdate, &structs.EvalUpdateRequest{
							Evals:        []*structs.Evaluation{e},
							WriteOptions: w.Now(),
						})
					}
				}
				toggle(structs.NodeIneligible)
				toggle(structs.NodeEligible)
				if got := pendingNodes(w.Store.Read(), "j"); len(got) != 1 {
					t.Fatalf("got pending evaluations %q, want one", got)
				}
				var taken *structs.Evaluation
				for e := range state.ReadyEvals(w.Store.Read()) {
					taken = e
				}
				toggle(structs.NodeIneligible)
				toggle(structs.NodeEligible)
				finish(taken)
				e := state.Eval(w.Store.Read(), taken.ID)
				if e.Status != structs.EvalPending || e.Again != structs.EvalChanged {
					t.Errorf("the evaluation is %s, %q, want pending", e.Status, e.StatusDescription)
				}
				if got := pendingNodes(w.Store.Read(), "j"); len(got) != 1 {
					t.Errorf("got pending evaluations %q", got)
				}
				finish(state.Eval(w.Store.Read(), taken.ID))
				if got := pendingNodes(w.Store.Read(), "j"); len(got) != 0 {
					t.Errorf("got pending evaluations %q", got)
				}
			})
		}
	}
}

// TestEvalDedup_OfANodeThatComesAndGoes bounds the evaluations of such a node, processed or not.
func TestEvalDedup_OfANodeThatComesAndGoes(t *testing.T) {
	for _, processed := range []bool{false, true} {
		w := newFixture(t)
		w.Job(aJob("csi", structs.JobSystem))
		w.Node("n1")
		w.Alloc("a", "once", "n1")
		for i := range 200 {
			do(w, state.NodeEligibility, &structs.NodeEligibilityRequest{
				NodeID:       "n1",
				WriteOptions: w.Now(),
				Eligibility:  []string{structs.NodeIneligible, structs.NodeEligible}[i%2],
			})
			for e := range state.ReadyEvals(w.Store.Read()) {
				e = e.Copy()
				if processed {
					e.Status = structs.EvalComplete
					j := state.Job(w.Store.Read(), e.Namespace, e.JobID)
					do(w, state.PlanApply, &structs.Plan{
						Eval:           e,
						JobModifyIndex: j.JobModifyIndex,
						WriteOptions:   w.Now(),
					})
				}
			}
		}
		n := 0
		for range state.Evals(w.Store.Read(), "*", "") {
			n++
		}
		if n > 8 {
			t.Errorf("processed %t: got %d evaluations, want at most 8", processed, n)
		}
	}
}

// TestEvalDedup_OneNodeDoesNotUnblockOthers checks that an evaluation of one node does not drop the unblock
// keys of the other nodes.
func TestEvalDedup_OneNodeDoesNotUnblockOthers(t *testing.T) {
	w := newFixture(t)
	w.Node("n1")
	w.Node("n2")
	j := w.Job(aJob("csi", structs.JobSystem))
	old := w.Index
	do(w, state.EvalUpdate, &structs.EvalUpdateRequest{
		WriteOptions: w.Now(),
		Evals: []*structs.Evaluation{{
			ID:                "b",
			JobID:             "csi",
			Type:              structs.JobSystem,
			Status:            structs.EvalBlocked,
			BlockedOn:         []string{structs.WakePlugin("p"), structs.WakeCapacity},
			SnapshotIndex:     w.Index,
			QueuedAllocations: map[string]int{"g": 3, "h": 1},
			FailedTGAllocs:    map[string]*structs.AllocMetric{"h": {NodesFiltered: 1}},
		}},
	})
	p := w.Plan(j)
	p.Eval.NodeID = "n2"
	do(w, state.PlanApply, p)
	w.WantEval("b", structs.EvalBlocked)

	p = w.Plan(j)
	p.Eval.NodeID = "n2"
	p.Blocked = &structs.Evaluation{
		ID:                "b",
		JobID:             "csi",
		Type:              structs.JobSystem,
		Status:            structs.EvalBlocked,
		BlockedOn:         []string{structs.WakeVolume("default", "v")},
		SnapshotIndex:     w.Index,
		QueuedAllocations: map[string]int{"g": 1},
		FailedTGAllocs:    map[string]*structs.AllocMetric{"g": {}},
		Shape:             "x",
	}
	do(w, state.PlanApply, p)
	e := state.Eval(w.Store.Read(), "b")
	if want := []string{
		structs.WakeCapacity, structs.WakePlugin("p"),
		structs.WakeVolume("default", "v"),
	}; !slices.Equal(e.BlockedOn, want) {
		t.Errorf("got unblock keys %q, want %q", e.BlockedOn, want)
	}
	if e.SnapshotIndex <= old || e.QueuedAllocations["g"] != 3 ||
		e.QueuedAllocations["h"] != 1 ||
		len(e.FailedTGAllocs) != 2 || e.Shape != "" {
		t.Errorf("the evaluation is %+v", e)
	}
	q := state.JobSummary(w.Store.Read(), j).Summary["g"].Queued
	if q != 3 {
		t.Errorf("%d allocations are queued, want 3", q)
	}
	w.Update("n1", anInstance("p", structs.CSIKindNode, true))
	w.WantEval("b", structs.EvalPending)
	p = w.Plan(j) // of all nodes
	do(w, state.PlanApply, p)
}

// TestEvals_StayWhileTheirAllocationsDo checks that an evaluation has ended only without allocations.
func TestEvals_StayWhileTheirAllocationsDo(t *testing.T) {
	w := newFixture(t)
	w.Node("n1")
	j := w.Job(aJob("j", structs.JobService))
	p := w.Plan(j)
	p.Place = []*structs.Allocation{{
		ID:        "a",
		JobID:     "j",
		TaskGroup: "g",
		NodeID:    "n1",
	}}
	do(w, state.PlanApply, p)
	ended := func() bool {
		for e := range state.EndedEvals(w.Store.Read()) {
			if e.ID == p.Eval.ID {
				return true
			}
		}
		return false
	}
	if ended() {
		t.Error("the evaluation counts as ended, but its allocation runs")
	}
	w.Client("n1", "a", structs.AllocComplete)
	if ended() {
		t.Error("the evaluation counts as ended, but its allocation has a row")
	}
	do(w, state.Reap, &structs.ReapRequest{Allocs: []string{"a"}})
	if !ended() {
		t.Error("the evaluation without allocations does not count as ended")
	}
}

// TestBlockedEvals_OfManyNodesWaitForCapacity bounds the unblock keys of a job for any number of full nodes.
func TestBlockedEvals_OfManyNodesWaitForCapacity(t *testing.T) {
	w := newFixture(t)
	j := w.Job(aJob("csi", structs.JobSystem))
	for i := range structs.ManyNodes + 1 {
		id := fmt.Sprint("n", i)
		w.Node(id)
		p := w.Plan(j)
		p.Eval.NodeID = id
		p.Blocked = &structs.Evaluation{
			ID:            fmt.Sprint("b", i),
			JobID:         "csi",
			Type:          structs.JobSystem,
			Status:        structs.EvalBlocked,
			BlockedOn:     []string{structs.WakeNode(id)},
			SnapshotIndex: w.Index,
		}
		do(w, state.PlanApply, p)
		want := min(i+1, structs.ManyNodes)
		if i >= structs.ManyNodes {
			want = 1
		}
		if e := state.BlockedEval(w.Store.Read(), "default", "csi"); e == nil ||
			len(e.BlockedOn) != want ||
			(want == 1 && i > 0) != (e.BlockedOn[0] == structs.WakeCapacity) {
			t.Fatalf("after %d nodes: %+v", i+1, e)
		}
	}
	blocked := state.BlockedEval(w.Store.Read(), "default", "csi").ID
	w.Alloc("a", "other", "n3")
	w.Client("n3", "a", structs.AllocComplete)
	w.WantEval(blocked, structs.EvalPending)
}
