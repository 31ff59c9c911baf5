package client

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client/assembly"
	"berth/client/membership"
	"berth/client/store"
	"berth/internal/backoff"
	"berth/internal/boottime"
	"berth/rpc"
	"berth/structs"
	"berth/structs/cluster"
)

// node is what the loops share: which node this is, its settings, its parts, and the way to the servers.
type node struct {
	logger     hclog.Logger
	settings   atomic.Pointer[Config] // see config and Reload
	db         *store.DB
	id         membership.Identity
	clock      boottime.Clock
	subsystems *assembly.Subsystems
	consul     assembly.Consul // nil: the node uses none

	pool        membership.ServerPool
	servers     *membership.Servers
	memory      *membership.ServerMemory // of the servers that the node has learned
	find        func(ctx context.Context) ([]string, error)
	serversBack backoff.Recovery

	registered     chan struct{} // closed after the first registration
	registeredOnce sync.Once
	contacted      chan struct{} // closed after the first pull of allocations and the first check of claims
	contactedOnce  sync.Once
}

// serverRetry paces attempts to reach the servers. leaseRetry paces those on which the lease depends. Their
// pauses are shorter, because a lease ends within seconds.
var (
	serverRetry = backoff.Backoff{
		Min: 250 * time.Millisecond,
		Max: 10 * time.Second,
	}
	leaseRetry = backoff.Backoff{
		Min: 100 * time.Millisecond,
		Max: 2 * time.Second,
	}
)

// retry calls attempt until it succeeds. It logs each failure as msg and pauses after it. A heartbeat that
// reaches the servers again ends the pause, and the attempt in flight (see backoff.Attempt). A pause that the
// servers have asked for does not end early. It reports false if ctx ended first.
func (n *node) retry(ctx context.Context, msg string, attempt func(context.Context) error) bool {
	pause := serverRetry
	for {
		back := n.serversBack.Next() // before the attempt: they may come back during it
		err := backoff.Attempt(ctx, back, attempt)
		if err == nil {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		wait := pause.After(err)
		n.logger.Warn(msg, "retry_in", wait, "error", err)
		if !pause.SleepAfter(ctx, wait, err, back) {
			return false
		}
	}
}

// config returns the configuration in use. The caller must not change it.
func (n *node) config() *Config { return n.settings.Load() }

// connect connects to a server, unless there is a connection. lost is closed with the connection. It is nil
// for a pool without connections.
func (n *node) connect(ctx context.Context, addr string) (lost <-chan struct{}, err error) {
	p, ok := n.pool.(*rpc.Pool)
	if !ok {
		return nil, nil
	}
	s, err := p.Session(ctx, addr)
	if err != nil {
		return nil, err
	}
	return s.Done(), nil
}

// dropDead closes the connection to a server, if there is one and no ping is answered over it in time.
func (n *node) dropDead(ctx context.Context, addr string, limit time.Duration) {
	p, ok := n.pool.(*rpc.Pool)
	if !ok {
		return
	}
	open := p.Open(addr)
	if open == nil {
		return
	}

	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	_, err := rpc.Call(limited, open, cluster.StatusPing, &structs.QueryRequest{})
	if rpc.IsTransport(err) && ctx.Err() == nil {
		p.Drop(addr)
	}
}
