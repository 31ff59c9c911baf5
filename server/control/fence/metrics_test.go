package fence

import (
	"context"
	"testing"
	"time"

	"github.com/hashicorp/go-metrics"

	"berth/fsm"
	"berth/server/fencing"
	"berth/state"
	"berth/structs/cluster"
)

func TestMetrics_CountRunsByResultAndMeasureAgents(t *testing.T) {
	virtual(t, func(t *testing.T, c *testCluster) {
		sink := metrics.NewInmemSink(24*time.Hour, 24*time.Hour)
		if _, err := metrics.NewGlobal(&metrics.Config{FilterDefault: true}, sink); err != nil {
			t.Fatal(err)
		}
		defer func() { _, _ = metrics.NewGlobal(&metrics.Config{}, &metrics.BlackholeSink{}) }()

		c.underLease()
		stopLease := c.leadLeases()
		defer stopLease()
		c.down("n1")
		after(cluster.GuardEndTime + interval)
		a := &agent{}
		stop := c.lead(power("ipmi", a))
		defer stop()
		for _, outcome := range []func(context.Context, *state.FenceTarget) fencing.Result{fails, succeeds} {
			a.fence = outcome
			propose(c, fsm.FenceOrdered, &cluster.NodeFenceRequest{NodeID: "n1", By: "ann"})
			after(2 * interval)
		}

		seen := sink.Data()[0]
		for _, result := range []string{cluster.FenceCauseAgent, cluster.FenceProved, cluster.FenceByLease} {
			if got := seen.Counters["fence.runs;result="+result].Count; got != 1 {
				t.Errorf("%d runs with the result %s, want 1", got, result)
			}
		}
		if got := seen.Samples["fence.agent;device=ipmi"].Count; got != 2 {
			t.Errorf("%d agents were measured, want 2", got)
		}
	})
}
