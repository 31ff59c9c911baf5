package endpointstest

import (
	"context"
	"sync"
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/endpoints"
	"berth/endpoints/core"
	"berth/internal/level"
	"berth/rpc"
)

// HoldingRaft applies nothing until the test releases it, and counts the concurrent entries.
type HoldingRaft struct {
	*FakeRaft
	Free chan struct{}

	mu       sync.Mutex
	inFlight int
}

// Propose implements core.Raft.
func (r *HoldingRaft) Propose(ctx context.Context, entry []byte) (uint64, any, error) {
	r.mu.Lock()
	r.inFlight++
	r.mu.Unlock()
	<-r.Free
	return r.FakeRaft.Propose(ctx, entry)
}

// Arrived returns the number of entries so far.
func (r *HoldingRaft) Arrived() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.inFlight
}

// NewHolding makes a server with settings and node n1, whose log applies nothing until the test releases it.
func NewHolding(t *testing.T, c core.Settings) (*Server, *HoldingRaft) {
	s := New(t)
	s.AddNode("n1", "a")
	held := &HoldingRaft{FakeRaft: s.Raft, Free: make(chan struct{})}
	d := core.Deps{
		Store:  s.Store,
		Raft:   held,
		Leases: s.Leases,
		Nodes:  s.Nodes,
		Logger: hclog.NewNullLogger(),
		Level:  func() int { return level.Now },
	}
	s.Endpoints = endpoints.NewWith(d, c)
	s.RPC = rpc.NewServer(hclog.NewNullLogger(), s.List()...)
	t.Cleanup(s.RPC.Close)
	return s, held
}
