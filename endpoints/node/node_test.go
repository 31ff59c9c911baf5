package node_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/endpoints/core"
	"berth/endpoints/endpointstest"
	"berth/fsm"
	"berth/internal/agenttest"
	"berth/rpc"
	"berth/server/nodeconn"
	"berth/state"
	"berth/structs"
	"berth/structs/nodecalls"
)

func TestAuthenticate_NodeUsesItsOwnMethods(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	call := func(m string, req any) error {
		for _, e := range s.List() {
			if e.Name == m {
				_, err := e.Serve(t.Context(), req)
				return err
			}
		}
		t.Fatalf("no method %s", m)
		return nil
	}
	for method, with := range map[string]func(node, secret string) any{
		"Node.UpdateStatus": func(n, s string) any {
			return &structs.NodeHeartbeatRequest{
				NodeID:   n,
				SecretID: s,
			}
		},
		"Node.UpdateAlloc": func(n, s string) any {
			return &structs.AllocsClientUpdateRequest{
				NodeID:   n,
				SecretID: s,
			}
		},
		"Node.UpdateCSI": func(n, s string) any {
			return &structs.NodeUpdateCSIRequest{
				NodeID:   n,
				SecretID: s,
			}
		},
		"Node.GetClientAllocs": func(n, s string) any { return &structs.NodeGetRequest{NodeID: n, SecretID: s} },
		"CSIVolume.Unpublish": func(n, s string) any {
			return &structs.CSIVolumeUnpublishRequest{
				NodeID:   n,
				SecretID: s,
			}
		},
	} {
		for _, c := range []struct {
			node, secret string
			want         structs.Kind
		}{
			{"n1", endpointstest.SecretOf("n1"), ""},
			{"n1", "wrong", structs.KindDenied},
			{"n1", "", structs.KindDenied},
			{"n9", "wrong", structs.KindNotFound}, // so that the node registers again
		} {
			req := with(c.node, c.secret)
			agenttest.Stamp(req)
			if err := call(method, req); structs.KindOf(err) != c.want {
				t.Errorf("%s as %s with %q: got %v, want kind %q", method, c.node, c.secret, err, c.want)
			}
		}
	}
	for name, req := range map[string]any{
		"CSIVolume.Claim":    &structs.CSIVolumeClaimRequest{NodeID: "n1", SecretID: "wrong"},
		"CSIVolume.GetClaim": &structs.CSIClaimGetRequest{NodeID: "n1", SecretID: "wrong"},
		"Alloc.GetAllocs":    &structs.AllocsGetRequest{NodeID: "n1", SecretID: "wrong"},
		"Node.GetAllocs":     &structs.NodeGetRequest{NodeID: "n1", SecretID: "wrong"},
	} {
		if err := call(name, req); !structs.IsKind(err, structs.KindDenied) {
			t.Errorf("%s: got %v, want denied", name, err)
		}
	}
}

func TestAuthenticate_LaggingFollowerIsUnavailable(t *testing.T) {
	s := endpointstest.New(t, endpointstest.QuickSettings())
	s.Raft.IsMe = false
	endpointstest.Rejected(s, structs.KindUnavailable, structs.NodeClientAllocs, &structs.NodeGetRequest{
		NodeID:       "n1",
		SecretID:     "s",
		QueryOptions: structs.QueryOptions{AllowStale: true},
	})
}

func TestNodeRegister_RejectsBadNode(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	whole := func() *structs.Node {
		return &structs.Node{
			ID:       "n2",
			SecretID: "s",
			Name:     "n",
		}
	}
	for name, c := range map[string]struct {
		edit func(*structs.NodeRegisterRequest)
		kind structs.Kind
	}{
		"no node":   {func(r *structs.NodeRegisterRequest) { r.Node = nil }, structs.KindInvalid},
		"no ID":     {func(r *structs.NodeRegisterRequest) { r.Node.ID = "" }, structs.KindInvalid},
		"no secret": {func(r *structs.NodeRegisterRequest) { r.Node.SecretID = "" }, structs.KindInvalid},
		"no name":   {func(r *structs.NodeRegisterRequest) { r.Node.Name = "" }, structs.KindInvalid},
		"status":    {func(r *structs.NodeRegisterRequest) { r.Node.Status = "down" }, structs.KindInvalid},
		"nil instance": {func(r *structs.NodeRegisterRequest) { r.CSI = []*structs.CSIPluginInstance{nil} },
			structs.KindInvalid},
		"other's": {func(r *structs.NodeRegisterRequest) {
			r.CSI = []*structs.CSIPluginInstance{{Kind: "node", NodeID: "n1", CSIInfo: structs.CSIInfo{PluginID: "p"}}}
		}, structs.KindInvalid},
		"another's name": {func(r *structs.NodeRegisterRequest) { r.Node.ID = "n1" }, structs.KindDenied},
	} {
		t.Run(name, func(t *testing.T) {
			s := s.In(t)
			req := &structs.NodeRegisterRequest{Node: whole()}
			c.edit(req)
			endpointstest.Rejected(s, c.kind, structs.NodeRegister, req)
		})
	}
}

func TestHeartbeat_WritesOnlyChanges(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	beat := func(status string) *structs.NodeHeartbeatResponse {
		return endpointstest.Must(s, structs.NodeHeartbeat, &structs.NodeHeartbeatRequest{
			NodeID:   "n1",
			SecretID: endpointstest.SecretOf("n1"),
			Status:   status,
		})
	}
	before := s.Raft.Len()
	for range 10 {
		got := beat(structs.NodeReady)
		if got.HeartbeatTTL == 0 || !slices.Equal(got.Servers, []string{"s1:4747"}) {
			t.Fatalf("got %+v", got)
		}
	}
	if n := s.Raft.Len() - before; n != 0 {
		t.Errorf("heartbeats without changes made %d log entries", n)
	}
	if len(s.Leases.Renewed) != 11 {
		t.Errorf("the lease was renewed %d times, want 11", len(s.Leases.Renewed))
	}
	endpointstest.MustPropose(s, fsm.NodeStatus,
		&structs.NodeStatusUpdate{NodeIDs: []string{"n1"}, Status: structs.NodeDown})
	beat(structs.NodeReady)
	n := state.Node(s.Store.Read(), "n1")
	if n.Status != structs.NodeReady ||
		n.Events[len(n.Events)-1].Message != "Node reregistered by heartbeat" {
		t.Errorf("the node is %s", n.Status)
	}
	endpointstest.Rejected(s, structs.KindInvalid, structs.NodeHeartbeat, &structs.NodeHeartbeatRequest{
		NodeID:   "n1",
		SecretID: endpointstest.SecretOf("n1"),
		Status:   "down",
	})
}

// TestSessions_ServerCallsNode goes over real connections: the node dials, the server calls.
func TestSessions_ServerCallsNode(t *testing.T) {
	s := endpointstest.New(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		rpc.NewListener(ln, hclog.NewNullLogger(), map[byte]func(net.Conn){rpc.ByteMux: s.RPC.ServeMux}).Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		s.RPC.Close()
		<-ended
	})
	called := make(chan string, 1)
	node := rpc.NewServer(hclog.NewNullLogger(), rpc.Handle(nodecalls.ClientCSINodeDetach,
		func(_ context.Context, r *nodecalls.ClientCSINodeDetachRequest) (*structs.Empty, error) {
			called <- r.VolumeID
			return &structs.Empty{}, nil
		}))
	pool := rpc.NewPool(rpc.Dial, hclog.NewNullLogger(), node)
	t.Cleanup(func() {
		pool.Close()
		node.Close()
	})
	register := &structs.NodeRegisterRequest{
		Node: &structs.Node{
			ID:       "n1",
			SecretID: "s",
			Name:     "n",
		},
	}

	agenttest.Stamp(register)
	register.Forwarded = true // it came over the connection of another server
	if _, err := rpc.Call(ctx, pool.At(ln.Addr().String()), structs.NodeRegister, register); err != nil {
		t.Fatal(err)
	}
	if s.Nodes.Session("n1") != nil {
		t.Error("a forwarded request bound the forwarder's connection")
	}
	register.Forwarded = false
	if _, err := rpc.Call(ctx, pool.At(ln.Addr().String()), structs.NodeRegister, register); err != nil {
		t.Fatal(err)
	}
	detach := nodeconn.Detach{Claim: structs.CSIClaimKey{VolumeID: "v"}, NodeID: "n1"}
	if err := nodeconn.DetachFromNode(ctx, s.Nodes, time.Minute, detach); err != nil {
		t.Fatal(err)
	}
	if got := <-called; got != "v" {
		t.Errorf("the node was called for volume %q, want v", got)
	}
	session := s.Nodes.Session("n1")
	pool.Drop(ln.Addr().String())
	<-session.Done()
	err = nodeconn.DetachFromNode(ctx, s.Nodes, time.Minute, detach)
	if !structs.IsKind(err, structs.KindUnavailable) || s.Nodes.Session("n1") != nil {
		t.Errorf("after the connection ended: %v", err)
	}
}

func TestAllocGetAllocs_ReturnsEachOnceAndBoundsTheirNumber(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	s.AddAlloc("a1", "n1")
	s.AddAlloc("a2", "n1")
	ids := slices.Repeat([]string{"a2", "a1"}, structs.MaxAllocIDs/2)
	got := endpointstest.Must(s, structs.AllocsGet, &structs.AllocsGetRequest{AllocIDs: ids}).Allocs
	if len(got) != 2 || got[0].ID != "a1" || got[1].ID != "a2" || got[0].Job == nil {
		t.Errorf("%d allocations, want two with their jobs", len(got))
	}
	endpointstest.Rejected(s, structs.KindInvalid, structs.AllocsGet,
		&structs.AllocsGetRequest{AllocIDs: append(ids, "a3")})
}

func TestNodeGetAllocs_Pages(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	for _, id := range []string{"a1", "a2", "a3"} {
		s.AddAlloc(id, "n1")
	}
	s.EndAlloc("a2", "n1") // the index has those that have ended first
	req := &structs.NodeGetRequest{NodeID: "n1"}
	req.PerPage = 2
	first := endpointstest.Must(s, structs.NodeAllocs, req)
	req.NextToken = first.NextToken
	second := endpointstest.Must(s, structs.NodeAllocs, req)
	got := ""
	for _, a := range append(first.Allocs, second.Allocs...) {
		got += a.ID + " "
	}
	if got != "a1 a2 a3 " || second.NextToken != "" {
		t.Errorf("pages of %d and %d: %q", len(first.Allocs), len(second.Allocs), got)
	}
}

func TestNodeAllocs_ShowsAllocationsOfNode(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	s.AddNode("n2", "a")
	s.AddAlloc("a1", "n1")
	s.AddAlloc("a2", "n2")
	if got := endpointstest.Must(s, structs.NodeAllocs,
		&structs.NodeGetRequest{NodeID: "n1"}).Allocs; len(got) != 1 ||
		got[0].ID != "a1" || got[0].Job == nil {
		t.Errorf("allocations of n1: %+v", got)
	}
	mine := endpointstest.Must(s, structs.NodeClientAllocs, &structs.NodeGetRequest{
		NodeID:   "n1",
		SecretID: endpointstest.SecretOf("n1"),
	}).Allocs
	if len(mine) != 1 || mine["a1"] != state.Alloc(s.Store.Read(), "a1").AllocModifyIndex {
		t.Errorf("n1 should have %v", mine)
	}
	got := endpointstest.Must(s, structs.AllocsGet, &structs.AllocsGetRequest{
		AllocIDs: []string{"a1", "a2", "gone"},
		NodeID:   "n1",
		SecretID: endpointstest.SecretOf("n1"),
	})
	if len(got.Allocs) != 1 || got.Allocs[0].ID != "a1" {
		t.Errorf("a node got %d allocations, want its own", len(got.Allocs))
	}
	endpointstest.Must(s, structs.NodeUpdateAllocs, &structs.AllocsClientUpdateRequest{
		NodeID:   "n1",
		SecretID: endpointstest.SecretOf("n1"),
		Allocs: []*structs.AllocClientUpdate{
			{ID: "a1", ClientStatus: structs.AllocRunning},
			{ID: "a2", ClientStatus: structs.AllocFailed},
		},
	})
	if a := state.Alloc(s.Store.Read(), "a2"); a.ClientStatus != structs.AllocPending {
		t.Errorf("another node made a2 %s", a.ClientStatus)
	}
}

func TestNodeDeregister_RejectsNodesInUseAndUnknownNodes(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	s.AddAlloc("a1", "n1")
	eval := endpointstest.Must(s, structs.NodeEvaluate, &structs.NodeGetWriteRequest{NodeID: "n1"})
	if len(eval.EvalIDs) != 1 || state.Eval(s.Store.Read(), eval.EvalIDs[0]).JobID != "job-a1" {
		t.Errorf("evaluations %v", eval.EvalIDs)
	}
	endpointstest.Must(s, structs.NodeEligibility, &structs.NodeEligibilityRequest{
		NodeID:      "n1",
		Eligibility: structs.NodeIneligible,
	})
	endpointstest.Rejected(s, structs.KindInvalid, structs.NodeEligibility, &structs.NodeEligibilityRequest{
		NodeID:      "n1",
		Eligibility: "perhaps",
	})
	endpointstest.Rejected(s, structs.KindPrecondition, structs.NodeDeregister,
		&structs.NodeDeregisterRequest{NodeIDs: []string{"n1"}})
	s.EndAlloc("a1", "n1")
	written := s.Raft.Len()
	endpointstest.Rejected(s, structs.KindNotFound, structs.NodeDeregister, &structs.NodeDeregisterRequest{
		NodeIDs: []string{"n1", strings.Repeat("x", 1<<20)},
	})
	endpointstest.Rejected(s, structs.KindInvalid, structs.NodeDeregister, &structs.NodeDeregisterRequest{
		NodeIDs: slices.Repeat([]string{"n1"}, structs.MaxListed+1),
	})
	if n := s.Raft.Len(); n != written {
		t.Errorf("requests with too many or unknown nodes made %d log entries", n-written)
	}
	endpointstest.Must(s, structs.NodeDeregister, &structs.NodeDeregisterRequest{NodeIDs: []string{"n1"}})
	if s.Nodes.Session("n1") != nil {
		t.Error("the connection of a deleted node was kept")
	}
}

func TestNodeClientAllocs_EndsTheWaitForOwnAllocations(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	s.AddNode("n2", "a")
	s.AddAlloc("a1", "n1")
	ask := &structs.NodeGetRequest{NodeID: "n1", SecretID: endpointstest.SecretOf("n1")}
	first := endpointstest.Must(s, structs.NodeClientAllocs, ask)
	s.AddAlloc("a2", "n2")
	endpointstest.Must(s, structs.NodeUpdateAllocs, &structs.AllocsClientUpdateRequest{
		NodeID:   "n1",
		SecretID: endpointstest.SecretOf("n1"),
		Allocs:   []*structs.AllocClientUpdate{{ID: "a1", ClientStatus: structs.AllocRunning}},
	})
	ask.MinIndex, ask.MaxWait = first.Index, time.Millisecond
	if got := endpointstest.Must(s, structs.NodeClientAllocs, ask); got.Index != first.Index {
		t.Errorf("after an allocation of another node and an own report: index %d, want %d", got.Index, first.Index)
	}
	ask.MaxWait = 0
	answered := make(chan *structs.NodeClientAllocsResponse)
	go func() {
		resp, err := rpc.Call(t.Context(), s.RPC, structs.NodeClientAllocs, ask)
		if err != nil {
			t.Error(err)
		}
		answered <- resp
	}()
	s.AddAlloc("a3", "n1")
	if got := <-answered; len(got.Allocs) != 2 || got.Index <= first.Index {
		t.Errorf("got %+v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ask.MinIndex = s.Store.Index()
	if _, err := rpc.Call(ctx, s.RPC, structs.NodeClientAllocs, ask); !structs.IsKind(err, structs.KindTimeout) {
		t.Errorf("got %v, want timeout", err)
	}
}

// A server forwards requests for logs to the address that the node reports.
func TestNodeRegister_ChecksAddress(t *testing.T) {
	s := endpointstest.New(t)
	at := func(addr string) *structs.NodeRegisterRequest {
		return &structs.NodeRegisterRequest{
			Node: &structs.Node{
				ID:       "n",
				SecretID: endpointstest.SecretOf("n"),
				Name:     "n",
				HTTPAddr: addr,
			},
		}
	}
	for _, addr := range []string{"", "10.0.0.1:4746", "[fe80::1%eth0]:4746", "node-1.example:4746"} {
		endpointstest.Must(s, structs.NodeRegister, at(addr))
	}
	for _, addr := range []string{"10.0.0.1:4746/v1/jobs?", "user@10.0.0.1:80", "10.0.0.1\r\nX: y"} {
		endpointstest.Rejected(s, structs.KindInvalid, structs.NodeRegister, at(addr))
	}
}

// gatedRaft is a log whose entries wait until a gate opens.
type gatedRaft struct {
	core.Raft
	gate chan struct{}
}

func (g gatedRaft) Propose(ctx context.Context, entry []byte) (uint64, any, error) {
	<-g.gate
	return g.Raft.Propose(ctx, entry)
}

// TestHeartbeat_NodesThatReturnShareEntries: of two hundred heartbeats of nodes that were down, those that
// arrive while the first is being recorded share one entry.
func TestHeartbeat_NodesThatReturnShareEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := endpointstest.New(t)
		var ids []string
		for i := range 200 {
			ids = append(ids, fmt.Sprintf("n%03d", i))
			s.AddNode(ids[i], "a")
		}
		endpointstest.MustPropose(s, fsm.NodeStatus,
			&structs.NodeStatusUpdate{NodeIDs: ids, Status: structs.NodeDown})
		gate := make(chan struct{})
		s.Endpoints.Raft = gatedRaft{s.Endpoints.Raft, gate}
		before := s.Raft.Len()
		var beats sync.WaitGroup
		for _, id := range ids {
			beats.Go(func() {
				req := agenttest.Request(&structs.NodeHeartbeatRequest{
					NodeID:   id,
					SecretID: endpointstest.SecretOf(id),
					Status:   structs.NodeReady,
				})
				resp, err := rpc.Call(t.Context(), s.RPC, structs.NodeHeartbeat, req)
				if err != nil || resp.Index == 0 {
					t.Errorf("%s: %+v, %v", id, resp, err)
				}
			})
		}
		synctest.Wait()
		close(gate)
		beats.Wait()
		if n := s.Raft.Len() - before; n != 2 {
			t.Errorf("got %d entries, want 2", n)
		}
		for _, id := range ids {
			n := state.Node(s.Store.Read(), id)
			last := n.Events[len(n.Events)-1].Message
			if n.Status != structs.NodeReady || last != "Node reregistered by heartbeat" {
				t.Fatalf("%s is %s, last %q", id, n.Status, last)
			}
		}
	})
}
