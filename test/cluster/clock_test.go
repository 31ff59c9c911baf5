package cluster_test

import (
	"context"
	"testing"
	"time"

	"berth/fsm"
	"berth/server"
	"berth/state"
	"berth/state/clustertime"
	"berth/structs"
	rows "berth/structs/cluster"
	"berth/test/cluster"
)

// setClusterTime sets the cluster time to one that is ahead of the clocks of all servers. So their clocks are
// behind it.
func setClusterTime(c *cluster.Cluster, ahead time.Duration) {
	c.T.Helper()
	c.AtLeader("set the cluster time", func(s *cluster.Server) error {
		p := &rows.ClusterTimeRequest{Clock: rows.ClusterTime{Time: time.Now().Add(ahead).UnixNano()}}
		if row := clustertime.Of(s.Store().Read()); row != nil {
			p.RowIndex = row.ModifyIndex
		}
		_, err := fsm.Propose(context.Background(), s.Current(), fsm.ClusterTimeSet, p)
		if structs.IsKind(err, structs.KindTimeout) {
			return structs.Unavailablef("%w", err) // of a lost leader: the next one sets it
		}
		if err != nil {
			return err
		}
		if off := time.Duration(clustertime.Of(s.Store().Read()).Time - p.Clock.Time); off.Abs() > time.Hour {
			return structs.Unavailablef("the leader has advanced the cluster time meanwhile")
		}
		return nil
	})
}

// lossRules are the groups of a job, by name, whose allocations are lost some seconds after their node.
func lossRules() map[string]*structs.DisconnectStrategy {
	const bound = 4 * time.Second
	return map[string]*structs.DisconnectStrategy{
		"lost":    {LostAfter: bound},
		"stopped": {StopOnClientAfter: new(bound)},
	}
}

// The clocks of the servers are a day ahead or behind when a node is lost, and another server leads then. Its
// allocations are lost after their time, neither earlier nor a day later.
func TestLostAfter_CountsInTheClusterTime(t *testing.T) {
	for name, ahead := range map[string]time.Duration{
		"the clocks are a day ahead":  -24 * time.Hour,
		"the clocks are a day behind": 24 * time.Hour,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := cluster.New(t, 3, func(cfg *server.Config) {
				cfg.HeartbeatTTL = 5 * time.Second
				cfg.HeartbeatGrace = time.Second
			})
			awaitAllVote(t, c)
			setClusterTime(c, ahead)

			storage := cluster.NewStorage(c)
			first := c.AddNode("n1", storage)
			req := jobRequest("j")
			group := req.Job.TaskGroups[0]
			req.Job.TaskGroups = nil
			rules := lossRules()
			for name, rule := range rules {
				g := *group
				g.Name = name
				g.Disconnect = rule
				req.Job.TaskGroups = append(req.Job.TaskGroups, &g)
			}
			leader := c.Leader()
			cluster.Must(c, leader, structs.JobRegister, req)
			c.Await("the job runs", func() bool { return len(first.Running()) == len(rules) })
			c.AddNode("n2", storage)
			first.Kill()
			c.AwaitRows(leader, "the node is lost", func(tx *state.ReadTx) bool {
				return state.Node(tx, first.ID).Status == structs.NodeDown
			})
			next := c.Others(leader)[0]
			transferTo(t, c, leader, next, &rows.RaftTransferRequest{ID: peerOf(t, leader, next, "").ID})
			c.AwaitRows(next, "its allocations are lost, and others run", func(tx *state.ReadTx) bool {
				return wasReplaced(tx, first.ID, rules)
			})
			checkLosses(t, next.Store().Read(), first.ID, ahead)
		})
	}
}

// wasReplaced reports whether each group has a lost allocation on a node, and a running one elsewhere.
func wasReplaced(tx *state.ReadTx, node string, rules map[string]*structs.DisconnectStrategy) bool {
	lost := map[string]bool{}
	runs := map[string]bool{}
	for a := range state.AllocsByJob(tx, structs.DefaultNamespace, "j") {
		switch {
		case a.NodeID == node && a.ClientStatus == structs.AllocLost:
			lost[a.TaskGroup] = true
		case a.NodeID != node && a.ClientStatus == structs.AllocRunning:
			runs[a.TaskGroup] = true
		}
	}
	return len(lost) == len(rules) && len(runs) == len(rules)
}

// checkLosses checks the times of the losses by the rows. The cluster time is ahead of the clock.
func checkLosses(t *testing.T, tx *state.ReadTx, node string, ahead time.Duration) {
	t.Helper()
	down := time.Unix(state.Node(tx, node).StatusUpdatedAt, 0)
	if off := down.Sub(time.Now()) - ahead; off.Abs() > time.Hour {
		t.Errorf("the node was lost at %s, which is off by %s", down, off)
	}
	for a := range state.AllocsByJob(tx, structs.DefaultNamespace, "j") {
		rule := lossRules()[a.TaskGroup]
		// A row has its time in seconds, and the agent stops its tasks from the end of its lease on.
		at, bound := time.Unix(0, a.ModifyTime), rule.LostAfter
		if rule.StopOnClientAfter != nil {
			at, bound = time.Unix(0, a.CreateTime), *rule.StopOnClientAfter
		}
		isLost := a.NodeID == node && rule.LostAfter > 0
		isNext := a.NodeID != node && rule.StopOnClientAfter != nil
		if (isLost || isNext) && at.Before(down.Add(bound)) {
			t.Errorf("%s: %s after the loss an allocation is %s", a.TaskGroup, at.Sub(down), a.ClientStatus)
		}
	}
}
