package endpoints

import (
	"context"
	"sync"
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/endpoints/core"
	"berth/internal/level"
	"berth/rpc"
)

// holdingRaft applies nothing until the test releases it, and counts the concurrent entries.
type holdingRaft struct {
	*fakeRaft
	free chan struct{}

	mu       sync.Mutex
	inFlight int
}

func (r *holdingRaft) Propose(ctx context.Context, entry []byte) (uint64, any, error) {
	r.mu.Lock()
	r.inFlight++
	r.mu.Unlock()
	<-r.free
	return r.fakeRaft.Propose(ctx, entry)
}

func (r *holdingRaft) arrived() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.inFlight
}

func newHolding(t *testing.T, c core.Settings) (*server, *holdingRaft) {
	s := newServer(t)
	s.addNode("n1", "a")
	held := &holdingRaft{fakeRaft: s.raft, free: make(chan struct{})}
	d := core.Deps{
		Store:  s.Store,
		Raft:   held,
		Leases: s.leases,
		Nodes:  s.Nodes,
		Logger: hclog.NewNullLogger(),
		Level:  func() int { return level.Now },
	}
	s.Endpoints = NewWith(d, c)
	s.rpc = rpc.NewServer(hclog.NewNullLogger(), s.List()...)
	t.Cleanup(s.rpc.Close)
	return s, held
}
