package state

import (
	"fmt"
	"testing"
	"time"

	"berth/structs"
)

// TestForgettingLooksAtFew: what a node has caused before of a job and what stays is not gone through each time.
func TestForgettingLooksAtFew(t *testing.T) {
	cost := func(done int) time.Duration {
		s := New()
		for i := 0; i < done; i += 500 {
			if err := s.Write(uint64(10+i), func(tx *Write) error {
				for k := i; k < min(done, i+500); k++ {
					evals.put(tx, &structs.Evaluation{ID: fmt.Sprintf("e%06d", k), Namespace: "default", JobID: "j", NodeID: "n", Type: structs.JobBatch,
						TriggeredBy: structs.TriggerAllocStop, Status: structs.EvalComplete})
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		best := time.Hour
		for r := range 20 {
			began := time.Now()
			_ = s.Write(uint64(1_000_000+r), func(tx *Write) error {
				forgetDone(tx, &structs.Evaluation{Namespace: "default", JobID: "j", NodeID: "n"})
				return nil
			})
			best = min(best, time.Since(began))
		}
		return best
	}
	few, many := cost(10), cost(20000)
	t.Logf("%s with 10 done, %s with 20,000", few, many)
	if many > 50*few {
		t.Errorf("%s with 10 done, %s with 20,000", few, many)
	}
}
