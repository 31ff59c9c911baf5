package state_test

import (
	"fmt"
	"slices"
	"testing"

	"berth/state"
	"berth/structs"
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
		must(t, state.JobRegister(tx, &structs.JobRegisterRequest{Job: aJob("csi", structs.JobSystem)}))
	})
	n := 0
	register := func() {
		n++
		w.do(func(tx *state.WriteTx) {
			must(t, state.NodeRegister(tx, &structs.NodeRegisterRequest{Node: aNode(fmt.Sprintf("n%05d", n))}))
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
				w.node("n1")
				j := w.job(aJob("j", kind))
				p := w.plan(j)
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
						WriteOptions: w.now(),
					})
				}
				finish := func(e *structs.Evaluation) {
					e = e.Copy()
					if way == "plan" {
						e.Status = structs.EvalComplete
						do(w, state.PlanApply, &structs.Plan{
							Eval:           e,
							JobModifyIndex: j.JobModifyIndex,
							WriteOptions:   w.now(),
						})
					} else {
						e.Status = structs.EvalFailed
						do(w, state.EvalUpdate, &structs.EvalUpdateRequest{
							Evals:        []*structs.Evaluation{e},
							WriteOptions: w.now(),
						})
					}
				}
				toggle(structs.NodeIneligible)
				toggle(structs.NodeEligible)
				if got := pendingNodes(w.s.Read(), "j"); len(got) != 1 {
					t.Fatalf("got pending evaluations %q, want one", got)
				}
				var taken *structs.Evaluation
				for e := range state.ReadyEvals(w.s.Read()) {
					taken = e
				}
				toggle(structs.NodeIneligible)
				toggle(structs.NodeEligible)
				finish(taken)
				if e := state.Eval(w.s.Read(), taken.ID); e.Status != structs.EvalPending || e.Again != structs.EvalChanged {
					t.Errorf("the evaluation is %s, %q, want pending", e.Status, e.StatusDescription)
				}
				if got := pendingNodes(w.s.Read(), "j"); len(got) != 1 {
					t.Errorf("got pending evaluations %q", got)
				}
				finish(state.Eval(w.s.Read(), taken.ID))
				if got := pendingNodes(w.s.Read(), "j"); len(got) != 0 {
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
		w.job(aJob("csi", structs.JobSystem))
		w.node("n1")
		w.alloc("a", "once", "n1")
		for i := range 200 {
			do(w, state.NodeEligibility, &structs.NodeEligibilityRequest{
				NodeID:       "n1",
				WriteOptions: w.now(),
				Eligibility:  []string{structs.NodeIneligible, structs.NodeEligible}[i%2],
			})
			for e := range state.ReadyEvals(w.s.Read()) {
				e = e.Copy()
				if processed {
					e.Status = structs.EvalComplete
					j := state.Job(w.s.Read(), e.Namespace, e.JobID)
					do(w, state.PlanApply, &structs.Plan{
						Eval:           e,
						JobModifyIndex: j.JobModifyIndex,
						WriteOptions:   w.now(),
					})
				}
			}
		}
		n := 0
		for range state.Evals(w.s.Read(), "*", "") {
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
	w.node("n1")
	w.node("n2")
	j := w.job(aJob("csi", structs.JobSystem))
	old := w.index
	do(w, state.EvalUpdate, &structs.EvalUpdateRequest{
		WriteOptions: w.now(),
		Evals: []*structs.Evaluation{{
			ID:                "b",
			JobID:             "csi",
			Type:              structs.JobSystem,
			Status:            structs.EvalBlocked,
			BlockedOn:         []string{structs.WakePlugin("p"), structs.WakeCapacity},
			SnapshotIndex:     w.index,
			QueuedAllocations: map[string]int{"g": 3, "h": 1},
			FailedTGAllocs:    map[string]*structs.AllocMetric{"h": {NodesFiltered: 1}},
		}},
	})
	p := w.plan(j)
	p.Eval.NodeID = "n2"
	do(w, state.PlanApply, p)
	w.wantEval("b", structs.EvalBlocked)

	p = w.plan(j)
	p.Eval.NodeID = "n2"
	p.Blocked = &structs.Evaluation{
		ID:                "b",
		JobID:             "csi",
		Type:              structs.JobSystem,
		Status:            structs.EvalBlocked,
		BlockedOn:         []string{structs.WakeVolume("default", "v")},
		SnapshotIndex:     w.index,
		QueuedAllocations: map[string]int{"g": 1},
		FailedTGAllocs:    map[string]*structs.AllocMetric{"g": {}},
		Shape:             "x",
	}
	do(w, state.PlanApply, p)
	e := state.Eval(w.s.Read(), "b")
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
	q := state.JobSummary(w.s.Read(), j).Summary["g"].Queued
	if q != 3 {
		t.Errorf("%d allocations are queued, want 3", q)
	}
	w.update("n1", anInstance("p", structs.CSIKindNode, true))
	w.wantEval("b", structs.EvalPending)
	p = w.plan(j) // of all nodes
	do(w, state.PlanApply, p)
}

// TestEvals_StayWhileTheirAllocationsDo checks that an evaluation has ended only without allocations.
func TestEvals_StayWhileTheirAllocationsDo(t *testing.T) {
	w := newFixture(t)
	w.node("n1")
	j := w.job(aJob("j", structs.JobService))
	p := w.plan(j)
	p.Place = []*structs.Allocation{{
		ID:        "a",
		JobID:     "j",
		TaskGroup: "g",
		NodeID:    "n1",
	}}
	do(w, state.PlanApply, p)
	ended := func() bool {
		for e := range state.EndedEvals(w.s.Read()) {
			if e.ID == p.Eval.ID {
				return true
			}
		}
		return false
	}
	if ended() {
		t.Error("the evaluation counts as ended, but its allocation runs")
	}
	w.client("n1", "a", structs.AllocComplete)
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
	j := w.job(aJob("csi", structs.JobSystem))
	for i := range structs.ManyNodes + 1 {
		id := fmt.Sprint("n", i)
		w.node(id)
		p := w.plan(j)
		p.Eval.NodeID = id
		p.Blocked = &structs.Evaluation{
			ID:            fmt.Sprint("b", i),
			JobID:         "csi",
			Type:          structs.JobSystem,
			Status:        structs.EvalBlocked,
			BlockedOn:     []string{structs.WakeNode(id)},
			SnapshotIndex: w.index,
		}
		do(w, state.PlanApply, p)
		want := min(i+1, structs.ManyNodes)
		if i >= structs.ManyNodes {
			want = 1
		}
		if e := state.BlockedEval(w.s.Read(), "default", "csi"); e == nil ||
			len(e.BlockedOn) != want ||
			(want == 1 && i > 0) != (e.BlockedOn[0] == structs.WakeCapacity) {
			t.Fatalf("after %d nodes: %+v", i+1, e)
		}
	}
	blocked := state.BlockedEval(w.s.Read(), "default", "csi").ID
	w.alloc("a", "other", "n3")
	w.client("n3", "a", structs.AllocComplete)
	w.wantEval(blocked, structs.EvalPending)
}
