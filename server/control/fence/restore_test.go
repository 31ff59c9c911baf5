package fence

import (
	"testing"
	"time"

	"berth/fsm"
	"berth/structs/cluster"
)

// A node that was down in the snapshot may be up. It has not sent its first heartbeat when the loop begins.
func TestLoop_FencesNoNodeByItselfThatHasNotReportedSinceARestore(t *testing.T) {
	virtual(t, func(t *testing.T, c *testCluster) {
		order := &cluster.NodeFenceRequest{NodeID: "n1", By: "ann"}
		propose(c, fsm.FenceOrdered, order)
		c.MarkRestored(t, time.Now().UnixNano())
		a := &agent{fence: succeeds}
		stop := c.lead(power("ipmi", a))
		defer stop()
		after(time.Hour)
		if a.runs != 0 {
			t.Errorf("the agent ran %d times although nobody ordered it after the restore", a.runs)
		}
		c.wantRuns()
		propose(c, fsm.FenceOrdered, order)
		after(2 * interval)
		c.wantRuns("ipmi 1 proved")
		if got := c.holds("n1"); got != "" {
			t.Errorf("n1 holds %q after the run that an operator ordered", got)
		}
	})
}
