package state_test

import (
	"strings"
	"testing"

	"berth/state"
	"berth/structs"
	"berth/structs/cluster"
)

func (w *fixture) applyPool(p *cluster.NodePool) error {
	w.T.Helper()
	return try(w, state.NodePoolApply, &cluster.NodePoolApplyRequest{Pool: p})
}

func (w *fixture) deletePool(name string) error {
	w.T.Helper()
	return try(w, state.NodePoolDelete, &cluster.NodePoolDeleteRequest{Name: name})
}

// nodeIn registers a node in a pool.
func (w *fixture) nodeIn(pool, id string) {
	w.T.Helper()
	n := aNode(id)
	n.NodePool = pool
	do(w, state.NodeRegister, &structs.NodeRegisterRequest{Node: n, WriteOptions: w.Now()})
}

func (w *fixture) wantPools(want string) {
	w.T.Helper()
	var names []string
	for _, p := range state.NodePools(w.Store.Read()) {
		names = append(names, p.Name)
	}
	if got := strings.Join(names, " "); got != want {
		w.T.Errorf("got node pools %q, want %q", got, want)
	}
}

func TestNodePools_AreThoseWithRowsOrNodes(t *testing.T) {
	w := newFixture(t)
	w.nodeIn("", "n1")
	w.nodeIn("gpu", "n2")
	w.wantPools("all default gpu")
	if state.NodePool(w.Store.Read(), "gpu") != nil {
		t.Error("a pool without a row has one")
	}
	err := w.applyPool(&cluster.NodePool{
		Name:                   "arm",
		SchedulerConfiguration: &cluster.NodePoolSchedulerConfiguration{SchedulerAlgorithm: "spread"},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.wantPools("all arm default gpu")
	row := state.NodePool(w.Store.Read(), "arm")
	if row == nil || row.SchedulerConfiguration.SchedulerAlgorithm != "spread" {
		t.Errorf("the row is %+v", row)
	}
	w.nodeIn("arm", "n3")
	for _, p := range state.NodePools(w.Store.Read()) {
		if p.Name == "arm" && p != row {
			t.Errorf("a pool with a row and a node is %+v", p)
		}
	}
	for _, name := range []string{"all", "default", ""} {
		wantRejected(t, w.applyPool(&cluster.NodePool{Name: name}), structs.KindInvalid, "name")
	}
}

func TestNodePoolDelete_RejectsAUsedOne(t *testing.T) {
	w := newFixture(t)
	if err := w.applyPool(&cluster.NodePool{Name: "gpu"}); err != nil {
		t.Fatal(err)
	}
	w.nodeIn("gpu", "n1")
	w.nodeIn("gpu", "n2")
	j := aJob("j", structs.JobService)
	j.NodePool = "gpu"
	w.Job(j)
	wantRejected(t, w.deletePool("gpu"), structs.KindPrecondition, "2 nodes", `"name-n1"`)
	do(w, state.NodeDeregister, &structs.NodeDeregisterRequest{NodeIDs: []string{"n1", "n2"}})
	wantRejected(t, w.deletePool("gpu"), structs.KindPrecondition, "1 jobs", `"j" in namespace "default"`)
	w.Purge("default", "j")
	if err := w.deletePool("gpu"); err != nil {
		t.Error(err)
	}
	w.wantPools("all default")
	wantRejected(t, w.deletePool("gpu"), structs.KindNotFound, "gpu")
	wantRejected(t, w.deletePool("all"), structs.KindInvalid, "cannot be deleted")
}

func TestNodePoolApply_WritesOnlyChanges(t *testing.T) {
	w := newFixture(t)
	pool := &cluster.NodePool{Name: "gpu", Description: "d"}
	for range 2 {
		if err := w.applyPool(pool); err != nil {
			t.Fatal(err)
		}
	}
	row := state.NodePool(w.Store.Read(), "gpu")
	if row.CreateIndex != row.ModifyIndex {
		t.Error("an equal definition was put again")
	}
}
