package cluster_test

import (
	"testing"
	"time"

	"berth/fsm"
	"berth/rpc"
	"berth/state"
	"berth/structs"
	"berth/structs/defaults"
	"berth/test/cluster"
)

// TestServers_SurviveAnUnboundedCount: the log has a job with a count that no server would accept today,
// as an older version may have written it. The part that fits is placed, and the rest waits. The cost for the
// leader, and for a leader that starts with it, does not depend on the count.
func TestServers_SurviveAnUnboundedCount(t *testing.T) {
	t.Parallel()
	c := cluster.New(t, 3, rareElections)
	leader := c.Leader()
	c.AddNode("n1", cluster.NewStorage(c))
	c.AwaitRows(leader, "the node is ready", func(tx *state.ReadTx) bool {
		for n := range state.Nodes(tx) {
			return n.Ready()
		}
		return false
	})
	req := jobRequest("huge")
	req.Job.TaskGroups[0].Count = 2_000_000_000
	_, err := rpc.Call(t.Context(), leader.Current(), structs.JobRegister, req)
	if !structs.IsKind(err, structs.KindInvalid) {
		t.Fatalf("a server accepts it: %v", err)
	}
	req.Job.TaskGroups[0].Tasks[0].Resources = &structs.Resources{CPU: 1000, MemoryMB: 10}
	defaults.Canonicalize(req.Job)
	now := time.Now().UnixNano()
	req.Now = now
	req.Eval = &structs.Evaluation{
		ID:          structs.NewID(),
		Namespace:   structs.DefaultNamespace,
		JobID:       "huge",
		Type:        structs.JobService,
		Priority:    50,
		TriggeredBy: structs.TriggerJobRegister,
		Status:      structs.EvalPending,
		CreateTime:  now,
		ModifyTime:  now,
	}
	if _, err := fsm.Propose(t.Context(), leader.Current(), fsm.JobRegister, req); err != nil {
		t.Fatal(err)
	}
	placed := func(s *cluster.Server) {
		c.AwaitRows(s, "eight are placed and the others wait", func(tx *state.ReadTx) bool {
			live := 0
			for a := range state.AllocsByJob(tx, structs.DefaultNamespace, "huge") {
				if !a.Terminal() {
					live++
				}
			}
			b := state.BlockedEval(tx, structs.DefaultNamespace, "huge")
			return live == 8 && b != nil && b.QueuedAllocations["g"] == 2_000_000_000-8
		})
	}
	placed(leader)
	if c.Leader() != leader {
		t.Error("the leader has changed")
	}
	if err := leader.Kill(); err != nil {
		t.Fatal(err)
	}
	c.Elect(c.Others(leader)[0])
	c.Restart(leader)
	next := c.Leader()
	placed(next)
	c.AtLeader("another job is registered", func(s *cluster.Server) error {
		_, err := rpc.Call(t.Context(), s.Current(), structs.JobRegister, jobRequest("small"))
		return err
	})
	c.CheckEqualStates()
}
