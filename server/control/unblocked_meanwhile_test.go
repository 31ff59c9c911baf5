package control

import (
	"context"
	"testing"
	"time"

	"berth/fsm"
	"berth/scheduler"
	"berth/state"
	"berth/structs"
)

// unblocksAfter unblocks evaluations right after each of some plans is applied.
type unblocksAfter struct {
	*testEnv
	left    int
	unblock func()
}

func (p *unblocksAfter) Propose(ctx context.Context, entry []byte) (uint64, any, error) {
	index, answer, err := p.log.Propose(ctx, entry)
	if p.left > 0 {
		p.left--
		p.unblock()
	}
	return index, answer, err
}

// Its plan was not rejected.
func TestSchedule_HasNoBackoffForAnUnblockedEvaluation(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addSizedNode("n0", 0, nil)
		w.addJob("waits", 1, 100)
		p := &unblocksAfter{testEnv: w, left: 12}
		p.unblock = func() {
			for _, e := range []string{structs.NodeIneligible, structs.NodeEligible} {
				put(w, fsm.NodeEligibility, &structs.NodeEligibilityRequest{NodeID: "n0", Eligibility: e})
			}
		}
		w.Proposer = p
		var made []time.Time
		stop := w.schedule(func(tx *state.ReadTx, e *structs.Evaluation, now time.Time) (*structs.Plan, error) {
			made = append(made, time.Now())
			return scheduler.Process(tx, e, now)
		})
		defer stop()
		after(time.Hour)
		if took := made[len(made)-1].Sub(made[0]); took > 2*time.Second {
			t.Errorf("%d plans took %s", len(made), took)
		}
	})
}
