package scheduler

import (
	"slices"
	"testing"

	"berth/scheduler/place"
	"berth/scheduler/rollout"
	"berth/structs"
)

// TestTrimToCount_KeepsTheBestOfEachIndex: one that continues before one that is replaced, then the newest,
// then the first by ID.
func TestTrimToCount_KeepsTheBestOfEachIndex(t *testing.T) {
	w := newFixture(t)
	w.nodes("n1")
	w.job(aJob("web", structs.JobService, count(3)))
	p, err := newPlanner(w.s.Read(), w.eval("web"), w.clock, options{enough: place.Enough})
	if err != nil {
		t.Fatal(err)
	}
	slot := func(id string, index int, decided rollout.Action, created uint64) rollout.Decision {
		a := &structs.Allocation{ID: id, NodeID: "n1"}
		a.CreateIndex = created
		return rollout.Decision{Alloc: a, Index: index, Action: decided}
	}
	var kept []string
	for _, s := range p.trimToCount(p.addGroup(p.outlook.Job.TaskGroups[0]), []rollout.Decision{
		slot("surplus", 5, rollout.Keep, 9),
		slot("replaced", 0, rollout.Update, 9),
		slot("older", 1, rollout.Keep, 3),
		slot("second", 2, rollout.Keep, 4),
		slot("continues", 0, rollout.Keep, 2),
		slot("newer", 1, rollout.Keep, 4),
		slot("first", 2, rollout.Keep, 4),
	}) {
		kept = append(kept, s.Alloc.ID)
	}
	if want := []string{"continues", "newer", "first"}; !slices.Equal(kept, want) {
		t.Errorf("kept %q, want %q", kept, want)
	}
	var stopped []string
	for _, s := range p.outlook.Plan.Stop {
		stopped = append(stopped, s.AllocID)
	}
	if want := []string{"replaced", "older", "second", "surplus"}; !slices.Equal(stopped, want) {
		t.Errorf("stopped %q, want %q", stopped, want)
	}
}
