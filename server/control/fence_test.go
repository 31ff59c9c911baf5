package control

import (
	"context"
	"testing"
	"testing/synctest"

	"berth/fsm"
	"berth/server/control/fence"
	"berth/server/fencing"
	"berth/state"
	"berth/structs"
	"berth/structs/cluster"
)

// waitingAgent fences until its leadership ends.
type waitingAgent struct{ begun chan string }

func (waitingAgent) Matches(*state.FenceTarget) string  { return "" }
func (waitingAgent) Covers(string, string, string) bool { return true }

func (a waitingAgent) Fence(ctx context.Context, n *state.FenceTarget) fencing.Result {
	a.begun <- n.NodeID
	<-ctx.Done()
	return fencing.Result{}
}

func (waitingAgent) Monitor(context.Context, *state.FenceTarget) fencing.Result {
	return fencing.Result{}
}

func TestFence_ActsOnAsManyNodesAtOnceAsIsSet(t *testing.T) {
	for parallel, want := range map[int]int{0: 1, 1: 1, 2: 2} {
		virtual(t, func(t *testing.T, w *testEnv) {
			nodes := []string{"n1", "n2", "n3"}
			for _, n := range nodes {
				w.addNode(n, false)
			}
			put(w, fsm.NodeStatus,
				&structs.NodeStatusUpdate{NodeIDs: nodes, Status: structs.NodeDown, WriteOptions: now()})
			for _, n := range nodes {
				put(w, fsm.FenceOrdered, &cluster.NodeFenceRequest{NodeID: n, By: "ann"})
			}
			agent := waitingAgent{begun: make(chan string, len(nodes))}
			w.Fencers = fence.Devices{{Name: "ipmi", Scope: fencing.ScopePower, Agent: agent}}
			w.Config.FenceParallel = parallel
			stop := w.runLoop("fence")
			defer stop()
			synctest.Wait()
			if got := len(agent.begun); got != want {
				t.Errorf("fence_max_parallel %d: %d nodes are fenced at once, want %d", parallel, got, want)
			}
		})
	}
}
