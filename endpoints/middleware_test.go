package endpoints_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/endpoints"
	"berth/endpoints/core"
	"berth/endpoints/endpointstest"
	"berth/fsm"
	"berth/rpc"
	"berth/structs"
	"berth/structs/cluster"
)

func TestForward_MakesOneHop(t *testing.T) {
	s := endpointstest.New(t, endpointstest.QuickSettings())
	s.Raft.IsMe, s.Raft.LeaderAddr = false, "s2:4747"
	s.Raft.OnForward = func(_ string, req, resp any) error {
		if !req.(*structs.QueryRequest).Forwarded {
			t.Error("the request does not say that it was forwarded")
		}
		resp.(*structs.NodeListResponse).Index = 7
		return nil
	}
	req := &structs.QueryRequest{}
	if got := endpointstest.Must(s, structs.NodeList, req); got.Index != 7 {
		t.Errorf("index %d, want the leader's answer", got.Index)
	}
	if req.Forwarded {
		t.Error("the request of the caller was changed: a repetition would be rejected")
	}
	if len(s.Raft.Forwards) != 1 || s.Raft.Forwards[0] != "s2:4747 Node.List" {
		t.Errorf("forwarded %v", s.Raft.Forwards)
	}
	endpointstest.Rejected(s, structs.KindUnavailable, structs.NodeList,
		&structs.QueryRequest{QueryOptions: structs.QueryOptions{Forwarded: true}})
	if len(s.Raft.Forwards) != 1 {
		t.Error("a second hop")
	}
}

func TestForward_KeepsKindOfError(t *testing.T) {
	s := endpointstest.New(t, endpointstest.QuickSettings())
	s.Raft.IsMe = false
	s.Raft.OnForward = func(string, any, any) error {
		return structs.Errorf(structs.KindConflict, "two writers")
	}
	endpointstest.Rejected(s, structs.KindConflict, cluster.SystemGC, &structs.WriteRequest{})
}

func TestRead_StaleNeedsNoLeader(t *testing.T) {
	s := endpointstest.New(t, endpointstest.QuickSettings())
	s.AddNode("n1", "a")
	s.Raft.IsMe, s.Raft.LeaderAddr = false, ""
	got := endpointstest.Must(s, structs.NodeList,
		&structs.QueryRequest{QueryOptions: structs.QueryOptions{AllowStale: true}})
	if len(got.Nodes) != 1 || got.KnownLeader || got.LastContact != time.Second || got.Index == 0 {
		t.Errorf("got %+v", got)
	}
	err := endpointstest.Rejected(s, structs.KindUnavailable, structs.NodeList, &structs.QueryRequest{})
	if !structs.IsNotServed(err) {
		t.Errorf("%v keeps the caller from another server", err)
	}
	endpointstest.Must(s, cluster.StatusPing, &structs.QueryRequest{})
	if got := endpointstest.Must(s, cluster.StatusLeader,
		&structs.QueryRequest{}); got.Leader != "" || got.KnownLeader {
		t.Errorf("leader %+v", got)
	}
}

func TestRoute_WaitsForElection(t *testing.T) {
	config := endpointstest.QuickSettings()
	config.HoldTimeout = time.Minute
	s := endpointstest.New(t, config)
	s.Raft.IsMe, s.Raft.LeaderAddr = false, ""
	answered := make(chan error)
	go func() {
		_, err := rpc.Call(t.Context(), s.RPC, structs.NodeList, &structs.QueryRequest{})
		answered <- err
	}()
	s.Raft.Mu.Lock()
	s.Raft.IsMe, s.Raft.LeaderAddr = true, "s1"
	s.Raft.Mu.Unlock()
	if err := <-answered; err != nil {
		t.Error(err)
	}
	s.Raft.Mu.Lock()
	s.Raft.IsMe, s.Raft.LeaderAddr = false, ""
	s.Raft.Mu.Unlock()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := rpc.Call(ctx, s.RPC, structs.NodeList, &structs.QueryRequest{}); !structs.IsKind(err,
		structs.KindUnavailable) {
		t.Errorf("got %v, want unavailable", err)
	}
}

// An election takes longer where Raft's timeouts are longer.
func TestRoute_WaitsLongerForAnElectionOfSlowServers(t *testing.T) {
	d := core.Deps{Logger: hclog.NewNullLogger()}
	usual := endpoints.New(d).Settings
	d.RaftMultiplier = 3
	slow := endpoints.New(d).Settings
	if slow.HoldTimeout != 3*usual.HoldTimeout {
		t.Errorf("a request waits %s for an election, want three times %s", slow.HoldTimeout, usual.HoldTimeout)
	}
	if slow.AnswerTimeout != 3*usual.AnswerTimeout {
		t.Errorf("a former leader has %s for an answer, want three times %s", slow.AnswerTimeout, usual.AnswerTimeout)
	}
}

func TestRead_VerifiesLeadership(t *testing.T) {
	s := endpointstest.New(t, endpointstest.QuickSettings())
	s.Raft.Verify = structs.Errorf(structs.KindUnavailable, "a quorum does not answer")
	endpointstest.Rejected(s, structs.KindUnavailable, structs.NodeList, &structs.QueryRequest{})
}

func TestRoute_RejectsAnotherRegion(t *testing.T) {
	s := endpointstest.New(t)
	endpointstest.Rejected(s, structs.KindInvalid, structs.NodeList,
		&structs.QueryRequest{QueryOptions: structs.QueryOptions{Region: "mars"}})
	endpointstest.Must(s, structs.NodeList,
		&structs.QueryRequest{QueryOptions: structs.QueryOptions{Region: "global"}})
}

func TestWrite_KeepsKindOfFailedProposal(t *testing.T) {
	s := endpointstest.New(t)
	s.Raft.Fail(structs.Errorf(structs.KindTimeout, "leadership was lost: %w", errors.New("x")))
	endpointstest.Rejected(s, structs.KindTimeout, structs.CSIPluginDelete,
		&structs.CSIPluginDeleteRequest{ID: "x"})
}

func TestRead_BlocksUntilAChange(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	before := endpointstest.Must(s, structs.NodeList, &structs.QueryRequest{})
	answered := make(chan *structs.NodeListResponse)
	go func() {
		got, err := rpc.Call(t.Context(), s.RPC, structs.NodeList,
			&structs.QueryRequest{QueryOptions: structs.QueryOptions{MinIndex: before.Index}})
		if err != nil {
			t.Error(err)
		}
		answered <- got
	}()
	s.AddNode("n2", "a")
	if got := <-answered; len(got.Nodes) != 2 || got.Index <= before.Index {
		t.Errorf("got %d nodes at %d, want 2 after %d", len(got.Nodes), got.Index, before.Index)
	}
}

func TestRead_BlocksUntilRowExists(t *testing.T) {
	s := endpointstest.New(t)
	answered := make(chan *structs.NodeGetResponse)
	go func() {
		got, err := rpc.Call(t.Context(), s.RPC, structs.NodeGet, &structs.NodeGetRequest{
			NodeID:       "n1",
			QueryOptions: structs.QueryOptions{MinIndex: 1},
		})
		if err != nil {
			t.Error(err)
		}
		answered <- got
	}()
	s.AddNode("n1", "a")
	if got := <-answered; got.Node.ID != "n1" || got.Node.SecretID != "" || len(got.Node.CSINodePlugins) != 1 {
		t.Errorf("got %+v", got.Node)
	}
}

// The server finds the garbage. The procedure adds the bound on writes and returns the index.
func TestSystemGC_ReturnsTheIndexOfTheCollection(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	var by fsm.Proposer
	collected := uint64(0)
	s.CollectGarbage = func(_ context.Context, p fsm.Proposer) (uint64, error) {
		by = p
		return collected, nil
	}
	got := endpointstest.Must(s, cluster.SystemGC, &structs.WriteRequest{})
	if got.Index != s.Store.Index() || by != fsm.Proposer(s.Endpoints.Raft) {
		t.Errorf("nothing was collected, by %T: index %d, want %d", by, got.Index, s.Store.Index())
	}
	collected = 1000
	if got := endpointstest.Must(s, cluster.SystemGC, &structs.WriteRequest{}); got.Index != collected {
		t.Errorf("index %d, want %d", got.Index, collected)
	}
	s.CollectGarbage = func(context.Context, fsm.Proposer) (uint64, error) {
		return 0, structs.Errorf(structs.KindUnavailable, "no leader")
	}
	endpointstest.Rejected(s, structs.KindUnavailable, cluster.SystemGC, &structs.WriteRequest{})
}
