package node_test

import (
	"testing"
	"time"

	"berth/endpoints/endpointstest"
	"berth/fsm"
	"berth/internal/agenttest"
	"berth/rpc"
	"berth/structs"
	"berth/structs/cluster"
)

// A node may be marked down after its request was authenticated, by this leader or the one before. Its
// volumes are released soon, so it must not count a lease in the former epoch.
func TestLease_IsNotGrantedToANodeThatIsDownMeanwhile(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	// The servers count epochs from then on.
	endpointstest.MustPropose(s, fsm.LeaseBoundSet, &cluster.LeaseBoundRequest{Longest: time.Minute})
	beat := func() (*structs.NodeHeartbeatResponse, error) {
		req := agenttest.Request(&structs.NodeHeartbeatRequest{
			NodeID:   "n1",
			SecretID: endpointstest.SecretOf("n1"),
			Status:   structs.NodeReady,
		})
		return rpc.Call(t.Context(), s.RPC, structs.NodeHeartbeat, req)
	}
	before, err := beat()
	if err != nil {
		t.Fatal(err)
	}

	s.Leases.Granting = func() { s.SetNodeDown("n1") }
	resp, err := beat()
	if !structs.IsKind(err, structs.KindUnavailable) {
		t.Fatalf("got %+v, %v; expected unavailable", resp, err)
	}

	s.Leases.Granting = nil
	after, err := beat()
	if err != nil || after.Epoch <= before.Epoch {
		t.Errorf("the next heartbeat: %+v, %v; expected a later epoch than %d", after, err, before.Epoch)
	}
}
