package endpoints_test

import (
	"context"
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/endpoints"
	"berth/endpoints/endpointstest"
	"berth/endpoints/rights"
	"berth/internal/opsocket"
	"berth/rpc"
	"berth/structs"
)

type assertRequest = structs.NodeEligibilityRequest

var assertMethod = structs.Method[assertRequest, structs.Empty]{Name: "Test.Assert", Write: true}

// serveAssert makes a server serve assertMethod over the operator socket alone, and returns the counter of
// the served requests.
func serveAssert(t *testing.T, s *endpointstest.Server, socket string) *int {
	t.Helper()
	s.Endpoints.Socket = socket
	s.Endpoints.Name = "server-1"
	served := 0
	s.RPC.Close()
	s.RPC = rpc.NewServer(hclog.NewNullLogger(), endpoints.Write(s.Endpoints, assertMethod, rights.Socket, func(
		context.Context, *assertRequest, *structs.Empty,
	) (uint64, error) {
		served++
		return 1, nil
	}))
	t.Cleanup(s.RPC.Close)
	return &served
}

func TestSocketOnly_NeedsTheMarkOfTheContext(t *testing.T) {
	s := endpointstest.New(t)
	served := serveAssert(t, s, "/run/berth.sock")
	forged := &assertRequest{WriteOptions: structs.WriteOptions{Forwarded: true, AuthToken: "root"}}
	for _, req := range []*assertRequest{{}, forged} {
		_, err := rpc.Call(t.Context(), s.RPC, assertMethod, req)
		endpointstest.WantSocket(t, err, "/run/berth.sock")
	}
	if *served != 0 {
		t.Fatal("a request without the mark was served")
	}
	_, err := rpc.Call(opsocket.Mark(t.Context()), s.RPC, assertMethod, &assertRequest{})
	if err != nil || *served != 1 {
		t.Errorf("with the mark: served %d times, error %v", *served, err)
	}
}

// The context of the caller is marked, and its request claims to come from another server: none of it reaches
// the server that it calls.
func TestSocketOnly_DeniesEveryRemoteCall(t *testing.T) {
	for name, first := range map[string]byte{"plain": rpc.ByteRPC, "mux": rpc.ByteMux} {
		t.Run(name, func(t *testing.T) {
			s := endpointstest.New(t)
			served := serveAssert(t, s, "/run/berth.sock")
			caller := endpointstest.RemoteCaller(t, s.RPC, first)
			for _, forwarded := range []bool{false, true} {
				req := &assertRequest{WriteOptions: structs.WriteOptions{Forwarded: forwarded}}
				_, err := rpc.Call(opsocket.Mark(t.Context()), caller, assertMethod, req)
				endpointstest.WantSocket(t, err, "/run/berth.sock")
			}
			if *served != 0 {
				t.Error("a remote call was served")
			}
		})
	}
}

// The socket of a server that does not lead takes the request, and the leader denies it: nothing that crosses
// the network proves that it came over a socket. The error names the socket of the leader.
func TestSocketOnly_NamesTheSocketOfTheLeader(t *testing.T) {
	p := newPair(t, gateRejecting(0), gateRejecting(0))
	follower := serveAssert(t, p.follower, "/run/follower.sock")
	served := serveAssert(t, p.leader, "/run/leader.sock")
	p.addr = endpointstest.Listen(t, p.leader.RPC)
	p.follower.Raft.LeaderAddr = p.addr
	_, err := rpc.Call(opsocket.Mark(t.Context()), p.follower.RPC, assertMethod, &assertRequest{})
	endpointstest.WantSocket(t, err, "/run/leader.sock")
	if len(p.answers) != 1 || *follower+*served != 0 {
		t.Errorf("the leader was called %d times; served %d and %d", len(p.answers), *follower, *served)
	}
}
