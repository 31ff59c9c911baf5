package state_test

import (
	"fmt"
	"testing"

	"berth/state"
	"berth/state/schema"
	"berth/structs"
)

// TestDeleteDone_ReadsFewRows counts heap allocations, of which a scan of a deeper tree needs more.
// deleteDone reads no evaluation that stays, for any number of evaluations of the job and the node.
func TestDeleteDone_ReadsFewRows(t *testing.T) {
	cost := func(done int) float64 {
		w := &uncheckedStore{s: state.New()}
		w.do(func(tx *state.WriteTx) {
			for k := range done {
				schema.Evals.Put(tx, &structs.Evaluation{
					ID:          fmt.Sprintf("e%06d", k),
					Namespace:   "default",
					JobID:       "j",
					NodeID:      "n",
					Type:        structs.JobBatch,
					TriggeredBy: structs.TriggerAllocStop,
					Status:      structs.EvalComplete,
				})
			}
		})
		return testing.AllocsPerRun(20, func() {
			w.do(func(tx *state.WriteTx) {
				state.DeleteDone(tx, &structs.Evaluation{
					Namespace: "default",
					JobID:     "j",
					NodeID:    "n",
				})
			})
		})
	}
	few, many := cost(10), cost(20000)
	t.Logf("%.0f allocations with 10 done, %.0f with 20,000", few, many)
	if many > few {
		t.Errorf("%.0f allocations with 10 done, %.0f with 20,000", few, many)
	}
}
