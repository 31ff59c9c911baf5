package place

import (
	"testing"

	"berth/scheduler/feasible"
	"berth/structs"
)

// Those that an allocation displaces stop with the part that places it. The last part completes the
// evaluation.
func TestSplitParts_KeepsTheDisplacedWithTheirSuccessors(t *testing.T) {
	e := &structs.Evaluation{ID: "e", Status: structs.EvalComplete}
	p := &Placer{parts: []int{1, 2}, outlook: &feasible.Outlook{Plan: &structs.Plan{
		Eval:    e,
		Blocked: &structs.Evaluation{ID: "b"},
		Place:   []*structs.Allocation{{ID: "x"}, {ID: "y"}, {ID: "z"}},
		Stop: []*structs.PlanStop{
			{AllocID: "old"},
			{AllocID: "of z", PreemptedBy: "z"},
			{AllocID: "of x", PreemptedBy: "x"},
		},
	}}}
	p.SplitParts()
	parts := append([]*structs.Plan{p.outlook.Plan}, p.outlook.Plan.Rest...)
	for i, want := range []struct {
		place, status string
		stops         int
		blocked       bool
	}{
		{"x", structs.EvalPending, 2, false},
		{"y", structs.EvalPending, 0, false},
		{"z", structs.EvalComplete, 1, true},
	} {
		got := parts[i]
		if len(got.Place) != 1 || got.Place[0].ID != want.place || len(got.Stop) != want.stops ||
			got.Eval.Status != want.status || (got.Blocked != nil) != want.blocked {
			t.Errorf("part %d: got %d allocations, %d stops, evaluation %s, blocked %v; want %+v",
				i, len(got.Place), len(got.Stop), got.Eval.Status, got.Blocked, want)
		}
	}
}
