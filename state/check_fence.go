package state

import (
	"fmt"

	"berth/state/schema"
	"berth/structs/cluster"
)

// checkFences checks that a run or an order belongs to the loss of a node: only a node that is down has an
// order or a run that has not ended, and both are of its epoch.
func checkFences(c *schema.Report) {
	running := map[string]int{}
	ended := map[string]int{}
	for r := range schema.FenceRuns.Scan(c) {
		subject := fmt.Sprintf("run %d of node %s", r.Number, r.NodeID)
		n := Node(c, r.NodeID)
		c.Want(n != nil, "%s: no such node", subject)
		c.Want(n == nil || r.Epoch <= n.Epoch, "%s: epoch %d is after that of the node", subject, r.Epoch)
		c.Want((r.Kind == cluster.FenceByAgent) == (r.Attempt > 0), "%s: attempt %d", subject, r.Attempt)
		c.Want(r.Kind != cluster.FenceByWord || r.Ordered(), "%s: no operator gave the word", subject)
		c.Want(r.Kind != cluster.FenceByLease || r.State == cluster.FenceProved, "%s: the end of a lease is %s",
			subject, r.State)
		switch r.State {
		case cluster.FenceRunning:
			running[r.NodeID]++
			c.Want(r.Ended == 0, "%s: it runs and has ended", subject)
			c.Want(n.Lost() && (n == nil || r.Epoch == n.Epoch), "%s: it runs and its node is back", subject)
		case cluster.FenceProved, cluster.FenceFailed, cluster.FenceVoid:
			ended[r.NodeID]++
			c.Want(r.State == cluster.FenceProved || r.Released == 0,
				"%s: it released claims without a proof", subject)
		default:
			c.Want(false, "%s: state %q", subject, r.State)
		}
	}

	for o := range schema.FenceOrders.Scan(c) {
		n := Node(c, o.NodeID)
		c.Want(n != nil && n.Lost() && n.Epoch == o.Epoch,
			"the order to fence node %s is not for its loss", o.NodeID)
	}

	for node, count := range running {
		c.Want(count == 1, "node %s has %d runs that have not ended", node, count)
	}

	for node, count := range ended {
		c.Want(count <= cluster.FenceRuns, "node %s has %d runs that have ended", node, count)
	}
}
