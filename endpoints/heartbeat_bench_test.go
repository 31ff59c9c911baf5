package endpoints_test

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/endpoints"
	"berth/endpoints/core"
	"berth/endpoints/endpointstest"
	"berth/internal/agentproof"
	"berth/internal/agenttest"
	"berth/internal/level"
	"berth/rpc"
	"berth/server/nodeconn"
	"berth/state"
	"berth/structs"
	"berth/test/oneserver"
)

// BenchmarkHeartbeat is the cost of one heartbeat for a server with 10,000 nodes. 10,000 nodes with one
// heartbeat every 5 seconds take 2,000 times that in a second.
func BenchmarkHeartbeat(b *testing.B) {
	const size = 10_000
	store := state.New()
	s := &endpointstest.Server{
		Raft: &endpointstest.FakeRaft{
			Log:        oneserver.LogOf(store),
			LeaderAddr: "s1:4747",
			IsMe:       true,
		},
	}
	s.Endpoints = endpoints.New(core.Deps{
		Store:  store,
		Raft:   s.Raft,
		Leases: &countingLeases{},
		Nodes:  nodeconn.NewSessions(nil),
		Logger: hclog.NewNullLogger(),
		Level:  func() int { return level.Now },
	})
	s.RPC = rpc.NewServer(hclog.NewNullLogger(), s.List()...)
	defer s.RPC.Close()
	for i := range size {
		_, err := rpc.Call(b.Context(), s.RPC, structs.NodeRegister,
			agenttest.Request(endpointstest.Registration(fmt.Sprintf("f%05d", i))))
		if err != nil {
			b.Fatal(err)
		}
	}
	beat := func(b *testing.B, c rpc.Caller, i int) {
		id := fmt.Sprintf("f%05d", i%size)
		req := agenttest.Request(&structs.NodeHeartbeatRequest{
			NodeID:   id,
			SecretID: endpointstest.SecretOf(id),
			Status:   structs.NodeReady,
		})
		_, err := rpc.Call(b.Context(), c, structs.NodeHeartbeat, req)
		if err != nil {
			b.Fatal(err)
		}
	}
	before := s.Raft.Len()
	b.Run("in process", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			beat(b, s.RPC, i)
		}
	})
	b.Run("over loopback, both ends", func(b *testing.B) {
		b.ReportAllocs()
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		srv := rpc.NewServer(hclog.NewNullLogger(), s.List()...)
		go func() {
			defer close(ended)
			rpc.NewListener(ln, hclog.NewNullLogger(), map[byte]func(net.Conn){rpc.ByteMux: srv.ServeMux}).Run(ctx)
		}()
		pool := rpc.NewPool(rpc.Dial, hclog.NewNullLogger(), nil)
		defer func() {
			pool.Close()
			cancel()
			srv.Close()
			<-ended
		}()
		b.ResetTimer()
		c := pool.At(ln.Addr().String())
		var n atomic.Int64
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				beat(b, c, int(n.Add(1)))
			}
		})
	})
	if n := s.Raft.Len() - before; n != 0 {
		b.Errorf("%d log entries", n)
	}
}

// countingLeases keep nothing.
type countingLeases struct {
	core.Leases
	n atomic.Int64
}

func (l *countingLeases) Admit(agentproof.Node, *structs.AgentProof) error { return nil }

func (l *countingLeases) Renew(string, *structs.AgentProof) (structs.LeaseGrant, error) {
	l.n.Add(1)
	return structs.LeaseGrant{HeartbeatTTL: 10 * time.Second}, nil
}
