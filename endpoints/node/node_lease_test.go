package node_test

import (
	"slices"
	"testing"
	"time"

	"berth/endpoints/endpointstest"
	"berth/internal/agenttest"
	"berth/rpc"
	"berth/state"
	"berth/structs"
	"berth/structs/cluster"
)

// The row of a longer lease is in the log before the lease is granted: the next leader knows of it.
func TestExtendLease_IsRecordedFirst(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	req := &cluster.NodeExtendLeaseRequest{NodeID: "n1", For: time.Minute}
	s.Raft.Fail(structs.Unavailablef("no quorum"))
	endpointstest.Rejected(s, structs.KindUnavailable, cluster.NodeExtendLease, req)
	if len(s.Leases.Extended) > 0 {
		t.Errorf("a lease was granted without its row: %v", s.Leases.Extended)
	}

	s.Raft.Fail(nil)
	resp := endpointstest.Must(s, cluster.NodeExtendLease, req)
	if !slices.Equal(s.Leases.Extended, []string{"n1 1m1s"}) || resp.DownAfter != 61*time.Second {
		t.Errorf("granted %v, answered %s", s.Leases.Extended, resp.DownAfter)
	}

	endpointstest.Rejected(s, structs.KindNotFound, cluster.NodeExtendLease,
		&cluster.NodeExtendLeaseRequest{NodeID: "n2", For: time.Minute})
	endpointstest.Rejected(s, structs.KindInvalid, cluster.NodeExtendLease,
		&cluster.NodeExtendLeaseRequest{NodeID: "n1", For: 2 * time.Hour})
}

// A node counts on its lease. A former leader, and a server that has just begun to lead, must not grant one.
func TestLease_IsGrantedAfterACheckOfTheLeadership(t *testing.T) {
	for name, renew := range map[string]func(s *endpointstest.Server) (structs.LeaseGrant, error){
		"heartbeat": func(s *endpointstest.Server) (structs.LeaseGrant, error) {
			req := agenttest.Request(&structs.NodeHeartbeatRequest{
				NodeID:   "n1",
				SecretID: endpointstest.SecretOf("n1"),
				Status:   structs.NodeReady,
			})
			resp, err := rpc.Call(s.T.Context(), s.RPC, structs.NodeHeartbeat, req)
			if err != nil {
				return structs.LeaseGrant{}, err
			}
			return resp.LeaseGrant, nil
		},
		"registration": func(s *endpointstest.Server) (structs.LeaseGrant, error) {
			row := *state.Node(s.Store.Read(), "n1")
			req := agenttest.Request(&structs.NodeRegisterRequest{Node: &row})
			resp, err := rpc.Call(s.T.Context(), s.RPC, structs.NodeRegister, req)
			if err != nil {
				return structs.LeaseGrant{}, err
			}
			return resp.LeaseGrant, nil
		},
	} {
		s := endpointstest.New(t)
		s.AddNode("n1", "a")
		granted := len(s.Leases.Renewed)
		s.Raft.Verify = structs.NotServedf("lost the leadership")
		grant, err := renew(s)
		if !structs.IsKind(err, structs.KindUnavailable) || len(s.Leases.Renewed) != granted {
			t.Errorf("%s: a server that may not lead granted %+v, %v", name, grant, err)
		}

		s.Raft.Verify = nil
		s.Leases.NotYet = 2
		grant, err = renew(s)
		if err != nil || grant.HeartbeatTTL == 0 || s.Leases.NotYet != 0 {
			t.Errorf("%s: a server that has just begun to lead granted %+v, %v", name, grant, err)
		}
	}
}

// A check that began before a request says nothing about the leadership at its arrival.
func TestLease_NeedsACheckThatBeganAfterTheRequest(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	s.AddNode("n2", "a")
	renew := func(node string) (ended chan error) {
		ended = make(chan error, 1)
		go func() {
			req := agenttest.Request(&structs.NodeHeartbeatRequest{
				NodeID: node, SecretID: endpointstest.SecretOf(node), Status: structs.NodeReady,
			})
			_, err := rpc.Call(t.Context(), s.RPC, structs.NodeHeartbeat, req)
			ended <- err
		}()
		return ended
	}

	checks := make(chan chan error)
	s.Raft.Verifies = func() error {
		answer := make(chan error)
		checks <- answer
		return <-answer
	}
	first := renew("n1")
	earlier := <-checks
	second := renew("n2")
	select {
	case later := <-checks:
		earlier <- nil
		if err := <-first; err != nil {
			t.Errorf("the first request: %v", err)
		}
		later <- structs.NotServedf("lost the leadership")
	case <-time.After(10 * time.Second):
		earlier <- nil
		<-first
		t.Error("the second request began no check of its own")
	}
	if err := <-second; !structs.IsKind(err, structs.KindUnavailable) {
		t.Errorf("a lease was granted by an earlier check: %v", err)
	}
}
