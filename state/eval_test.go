package state_test

import (
	"fmt"
	"testing"

	"berth/state"
	"berth/state/csi"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/storage"
)

func TestBlockedEvals_AreUnblocked(t *testing.T) {
	volume := structs.WakeVolume("default", "v")
	for _, c := range []struct {
		name     string
		on       string
		do       func(*fixture)
		unblocks bool
	}{
		{"a claim is released", volume, func(w *fixture) { w.Release("v", "a1") }, true},
		{"a waiting claim is released", volume, func(w *fixture) { w.Release("v", "a2") }, true},
		{"a claim is made", volume, func(w *fixture) { w.Claim(aClaim("v", "a3", wr, snw)) }, false},
		{"a claim of another volume is released", volume, func(w *fixture) { w.Release("other", "a1") }, false},
		{"the volume changes", volume,
			func(w *fixture) {
				w.MustPut(func(v *structs.CSIVolume) {
					v.Context = map[string]string{"x": "y"}
				})
			},
			true},
		{"the volume is put without changes", volume, func(w *fixture) { w.MustPut() }, false},
		{"a volume appears", structs.WakeVolume("default", "new"), func(w *fixture) { w.Volume("new", "p") }, true},
		{"a node half becomes healthy", structs.WakePlugin("p"),
			func(w *fixture) { w.Update("n1", anInstance("p", structs.CSIKindNode, true)) }, false}, // it is
		{"a controller becomes healthy", structs.WakePlugin("p"),
			func(w *fixture) { w.Update("n1", anInstance("p", structs.CSIKindController, true)) }, true},
		{"the settings of a plugin change", structs.WakePlugin("p"), func(w *fixture) {
			do(w, csi.PluginConfigSet, &storage.PluginSettingsRequest{ID: "p", OnNodeLoss: structs.LossFence})
		}, true},
		{"a half becomes unhealthy", structs.WakePlugin("p"),
			func(w *fixture) { w.Update("n1", anInstance("p", structs.CSIKindNode, false)) }, false},
		{"a node registers", structs.WakeCapacity, func(w *fixture) { w.Node("n4") }, true},
		{"a node reports the same again", structs.WakeCapacity,
			func(w *fixture) { w.Node("n1", anInstance("p", structs.CSIKindNode, true)) }, false},
		{"an allocation is placed", structs.WakeCapacity, func(w *fixture) { w.Alloc("new", "j", "n1") }, false},
		{"an allocation ends", structs.WakeCapacity, func(w *fixture) { w.Client("n1", "b1", structs.AllocFailed) },
			true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := threeNodes(t, false)
			w.Volume("other", "p")
			w.Claim(aClaim("v", "a1", wr, snw), aClaim("v", "a2", wr, snw), aClaim("other", "a1", wr, snw))
			w.Blocked("waits", "something else", c.on)
			old := w.Index
			c.do(w)
			want := structs.EvalBlocked
			if c.unblocks {
				want = structs.EvalPending
			}
			w.WantEval("blocked-waits", want)
			// An evaluation that was processed with the previous state and arrives now must not block either.
			do(w, state.EvalUpdate, &structs.EvalUpdateRequest{
				WriteOptions: w.Now(),
				Evals: []*structs.Evaluation{{
					ID:            "late",
					JobID:         "late",
					Status:        structs.EvalBlocked,
					BlockedOn:     []string{c.on},
					SnapshotIndex: old,
				}},
			})
			w.WantEval("late", want)
		})
	}
}

// TestVolume_RecordsItsUnblock checks that most changes of a volume unblock evaluations without another row.
func TestVolume_RecordsItsUnblock(t *testing.T) {
	key := structs.WakeVolume("default", "v")
	w := threeNodes(t, false)
	late := func(snapshot uint64, want string) {
		t.Helper()
		id := fmt.Sprint("late-", w.Index)
		do(w, state.EvalUpdate, &structs.EvalUpdateRequest{
			WriteOptions: w.Now(),
			Evals: []*structs.Evaluation{{
				ID:            id,
				JobID:         id,
				Status:        structs.EvalBlocked,
				BlockedOn:     []string{key},
				SnapshotIndex: snapshot,
			}},
		})
		w.WantEval(id, want)
	}
	change := func(x string) {
		w.MustPut(func(v *structs.CSIVolume) { v.Context = map[string]string{"x": x} })
	}
	change("1")
	unblocked := w.Index
	if schema.Unblocks.Get(w.Store.Read(), key) != nil {
		t.Error("an unblock row repeats the index of the volume's row")
	}
	late(unblocked-1, structs.EvalPending)
	late(unblocked, structs.EvalBlocked)
	// No evaluation waits for a request for more capacity or for its answer.
	w.MustPut(func(v *structs.CSIVolume) { v.RequestedCapacityMin = 1 << 40 })
	unblocked = w.Index
	do(w, csi.VolumeOutcome, &structs.CSIVolumeOutcome{
		ID:           "v",
		Op:           "expand",
		Capacity:     1 << 40,
		WriteOptions: w.Now(),
	})
	late(unblocked-1, structs.EvalPending)
	late(unblocked, structs.EvalBlocked)
	w.Claim(aClaim("v", "a1", wr, snw))
	w.Release("v", "a1")
	late(w.Index-1, structs.EvalPending)
	change("2")
	if schema.Unblocks.Get(w.Store.Read(), key) != nil {
		t.Error("the row of an earlier unblock is left")
	}
	late(w.Index-1, structs.EvalPending)
	late(w.Index, structs.EvalBlocked)
}

func TestBlockedEvals_OnePerJob(t *testing.T) {
	w := newFixture(t)
	w.Node("n1")
	w.Job(aJob("j", structs.JobService))
	put := func(id, status string, failed bool) {
		t.Helper()
		e := &structs.Evaluation{
			ID:            id,
			JobID:         "j",
			Status:        status,
			BlockedOn:     []string{structs.WakeCapacity},
			SnapshotIndex: w.Index,
		}
		if failed {
			e.FailedTGAllocs = map[string]*structs.AllocMetric{"g": {}}
		}
		do(w, state.EvalUpdate, &structs.EvalUpdateRequest{
			Evals:        []*structs.Evaluation{e},
			WriteOptions: w.Now(),
		})
	}
	put("one", structs.EvalBlocked, false)
	put("two", structs.EvalBlocked, false)
	w.WantEval("one", structs.EvalCancelled)
	w.WantEval("two", structs.EvalBlocked)
	put("three", structs.EvalComplete, true)
	w.WantEval("two", structs.EvalBlocked) // it did not place all, so the other still waits
	put("four", structs.EvalComplete, false)
	w.WantEval("two", structs.EvalCancelled)
	w.wantJob("j", structs.JobDead, 0)
	for name, e := range map[string]*structs.Evaluation{
		"nil":    nil,
		"no ID":  {JobID: "j"},
		"no job": {ID: "e"},
	} {
		t.Run(name, func(t *testing.T) {
			wantKind(t, try(w, state.EvalUpdate, &structs.EvalUpdateRequest{Evals: []*structs.Evaluation{e}}),
				structs.KindInvalid)
		})
	}
}

func TestEvals_OfTheLogHaveDerivedIDs(t *testing.T) {
	w := newFixture(t)
	w.Job(aJob("everywhere", structs.JobSystem))
	w.Node("n1")
	id := structs.DeriveID(w.Index, "node-update", "default", "everywhere", "n1")
	w.WantEval(id, structs.EvalPending)
	if e := state.Eval(w.Store.Read(), id); e.NodeID != "n1" ||
		e.JobModifyIndex == 0 || e.Type != structs.JobSystem ||
		e.CreateTime == 0 {
		t.Errorf("the evaluation is %+v", e)
	}
}

func TestReap_ChecksTheRowsAgain(t *testing.T) {
	w := threeNodes(t, false)
	w.Claim(aClaim("v", "a1", wr, snw))
	w.Client("n1", "a1", structs.AllocComplete)
	w.Client("n1", "b1", structs.AllocFailed)
	w.Stop("a2", "")
	do(w, state.EvalUpdate, &structs.EvalUpdateRequest{
		WriteOptions: w.Now(),
		Evals: []*structs.Evaluation{
			{ID: "open", JobID: "j"},
			{ID: "done", JobID: "j", Status: structs.EvalFailed},
		},
	})
	all := &structs.ReapRequest{
		Allocs: []string{"a1", "b1", "a2", "a3", "x"},
		Evals:  []string{"open", "done", "x"},
		Jobs: []structs.JobKey{
			{Namespace: "default", ID: "j"},
			{Namespace: "default", ID: "x"},
		},
		Nodes: []string{"n1", "n2", "x"},
	}
	do(w, state.Reap, all)
	tx := w.Store.Read()
	got := w.Placed("a1", "b1", "a2", "a3")
	if got != "a1 a2 a3" {
		t.Errorf("got allocations %s, want all but b1, which has ended and has no claim", got)
	}
	if state.Eval(tx, "open") == nil || state.Eval(tx, "done") != nil ||
		state.Job(tx, "default", "j") == nil ||
		state.Node(tx, "n1") == nil {
		t.Error("too many or too few rows were deleted")
	}
	w.Release("v", "a1")
	do(w, state.Reap, &structs.ReapRequest{Allocs: []string{"a1"}})
	w.Status(structs.NodeDown, "n1", "n2")
	do(w, state.Reap, &structs.ReapRequest{Nodes: []string{"n1", "n2"}})
	tx = w.Store.Read()
	if state.Node(tx, "n1") != nil || state.Node(tx, "n2") == nil {
		t.Error("want node n1, which is down and empty, deleted and n2 kept")
	}
}

func TestReap_DeletesADeadJob(t *testing.T) {
	w := newFixture(t)
	w.Job(aJob("j", structs.JobService))
	e := &structs.Evaluation{
		ID:     "e",
		JobID:  "j",
		Status: structs.EvalComplete,
	}
	do(w, state.EvalUpdate, &structs.EvalUpdateRequest{
		Evals:        []*structs.Evaluation{e},
		WriteOptions: w.Now(),
	})
	w.wantJob("j", structs.JobDead, 0)
	reap := &structs.ReapRequest{Jobs: []structs.JobKey{{Namespace: "default", ID: "j"}}}
	do(w, state.Reap, reap)
	w.wantJob("j", structs.JobDead, 0) // its evaluation is still there
	do(w, state.Reap, &structs.ReapRequest{Evals: []string{"e"}})
	w.wantJob("j", structs.JobDead, 0)
	do(w, state.Reap, reap)
	if state.Job(w.Store.Read(), "default", "j") != nil || w.versions("j") != nil {
		t.Error("the job or a version is still there")
	}
}

// TestReap_KeepsANodeWithAllocations puts an allocation on a down node: a live one, one that is to end, and
// one that has ended.
func TestReap_KeepsANodeWithAllocations(t *testing.T) {
	for name, change := range map[string]func(*structs.Allocation){
		"live":    func(*structs.Allocation) {},
		"to end":  func(a *structs.Allocation) { a.DesiredStatus = structs.AllocDesiredStop },
		"ended":   func(a *structs.Allocation) { a.ClientStatus = structs.AllocComplete },
		"deleted": nil,
	} {
		s := state.New()
		_ = s.Write(1, func(tx *state.WriteTx) error {
			n := aNode("n")
			n.Status = structs.NodeDown
			schema.Nodes.Put(tx, n)
			if change != nil {
				a := &structs.Allocation{ID: "a", NodeID: "n", DesiredStatus: structs.AllocDesiredRun}
				change(a)
				schema.Allocs.Put(tx, a)
			}
			return state.Reap(tx, &structs.ReapRequest{Nodes: []string{"n"}})
		})
		if kept := state.Node(s.Read(), "n") != nil; kept != (change != nil) {
			t.Errorf("%s: the node is kept: %t", name, kept)
		}
	}
}
