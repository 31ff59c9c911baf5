package scheduler

import (
	"slices"
	"testing"

	"berth/structs"
)

// TestTrimToCount_KeepsTheBestOfEachIndex: one that continues before one that is replaced, then the newest,
// then the first by ID.
func TestTrimToCount_KeepsTheBestOfEachIndex(t *testing.T) {
	w := newFixture(t)
	w.nodes("n1")
	w.job(aJob("web", structs.JobService, count(3)))
	p, err := newPlanner(w.s.Read(), w.eval("web"), w.clock, options{enough: enough})
	if err != nil {
		t.Fatal(err)
	}
	slot := func(id string, index int, decision action, created uint64) classified {
		a := &structs.Allocation{ID: id, NodeID: "n1"}
		a.CreateIndex = created
		return classified{alloc: a, index: index, action: decision}
	}
	var kept []string
	for _, s := range p.trimToCount(p.addGroup(p.job.TaskGroups[0]), []classified{
		slot("surplus", 5, actionKeep, 9),
		slot("replaced", 0, actionUpdate, 9),
		slot("older", 1, actionKeep, 3),
		slot("second", 2, actionKeep, 4),
		slot("continues", 0, actionKeep, 2),
		slot("newer", 1, actionKeep, 4),
		slot("first", 2, actionKeep, 4),
	}) {
		kept = append(kept, s.alloc.ID)
	}
	if want := []string{"continues", "newer", "first"}; !slices.Equal(kept, want) {
		t.Errorf("kept %q, want %q", kept, want)
	}
	var stopped []string
	for _, s := range p.plan.Stop {
		stopped = append(stopped, s.AllocID)
	}
	if want := []string{"replaced", "older", "second", "surplus"}; !slices.Equal(stopped, want) {
		t.Errorf("stopped %q, want %q", stopped, want)
	}
}
