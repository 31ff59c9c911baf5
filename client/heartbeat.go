package client

import (
	"cmp"
	"context"
	"time"

	"berth/client/assembly"
	"berth/client/membership"
	"berth/internal/backoff"
	"berth/rpc"
	"berth/structs"
)

const (
	callTimeout = 30 * time.Second       // bounds a call that does not wait for a change
	defaultTTL  = 10 * time.Second       // of a lease without a length in the server's answer
	minBeatGap  = 250 * time.Millisecond // between two heartbeats, in any case

	minBeatTimeout = time.Second // of one heartbeat, however short the lease is
)

// pauseLease waits before the servers are asked for a lease again. They may all have moved, so discovery is
// asked too. Both take little time while there is a lease to save.
func (reg *registration) pauseLease(
	ctx context.Context, held *membership.Lease, wait time.Duration, err error,
) {
	limit := callTimeout
	if held.TTL > 0 && !held.Ended(reg.clock()) {
		limit = membership.NewAsking(held.TTL, nil).Pace()
	}
	if structs.RetryAfter(err) == 0 {
		wait = min(wait, limit)
	}

	reg.logger.Warn("no lease from the servers, asking again", "retry_in", wait, "error", err)
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	reg.findServers(limited)
	backoff.Sleep(ctx, wait)
}

// logDown reports whether the servers count the node as down by a lease, and tells operators so.
func (reg *registration) logDown(held *membership.Lease) bool {
	if !held.GraceEnded(reg.clock()) {
		return false
	}
	reg.logger.Error("lease ended, the servers consider this node down",
		"ended", reg.clock().Sub(held.Until()).String()+" ago")
	return true
}

// noteLease acts on an answer of the servers, to a registration or to a heartbeat.
func (reg *registration) noteLease(l *membership.Lease, registered bool) {
	held := reg.lease.Load()
	// A short cut may have had no effect, but the node cannot tell a restore from it.
	if !registered && held.Ended(reg.clock()) {
		reg.work.allocs.resend() // the servers may have been restored to an older state
		notify(reg.due)
	}
	reg.lease.Store(l)
	reg.servers.SetEpoch(l.Epoch)
	// The node was lost meanwhile. It compares what it has with what it may have, and tells the servers when
	// it is clean.
	if reg.comeback.Note(l.Epoch, l.Returning) {
		notify(reg.work.pullAnew)
		notify(reg.claims.due)
	}
}

// runReturn tells the servers, after each return of this node, when it has released what it lost.
func (reg *registration) runReturn(ctx context.Context) {
	repeat := func(check func(context.Context) error) {
		reg.retry(ctx, "this node gets no allocations until it has released what it lost", check)
	}
	reg.comeback.Run(ctx, repeat, reg.claims.check.Left)
}

// nextBeat returns the time until the next heartbeat is due, half of a lease after the last one was sent.
func nextBeat(ttl, passed time.Duration) time.Duration {
	return max(ttl/2-passed, minBeatGap)
}

// beatTimeout returns the time that the servers have to renew a lease of length ttl. The node begins to ask
// them when half of the lease has passed.
func beatTimeout(ttl time.Duration) time.Duration {
	if ttl <= 0 {
		return callTimeout // there is no lease that could end
	}
	return min(max(ttl/2, minBeatTimeout), callTimeout)
}

// renewal is a lease that was granted.
type renewal struct {
	membership.Lease
	addr string          // of the server that was asked
	lost <-chan struct{} // closed with the connection over which the servers can call the node from then on
}

// renewLease renews the lease. If no server grants it in time, it closes the connection to the first one:
// that server may be unreachable without a reset, and all calls on it then continue with another one.
func (reg *registration) renewLease(
	ctx context.Context, renew func(context.Context) (renewal, error), ttl time.Duration,
) (renewal, error) {
	limited, cancel := context.WithTimeout(ctx, beatTimeout(ttl))
	defer cancel()
	before, _ := reg.servers.First()
	renewed, err := renew(limited)
	kind := structs.KindOf(err)
	if kind != structs.KindUnavailable && kind != structs.KindTimeout ||
		structs.RetryAfter(err) > 0 || ctx.Err() != nil {
		return renewed, err
	}

	reg.servers.MoveToEnd(before)
	// A pool of a test has no connections.
	p, ok := reg.pool.(*rpc.Pool)
	if ok && limited.Err() != nil {
		p.Drop(before)
	}

	return renewed, err
}

// renewedBy returns the lease of a request that was granted.
func (reg *registration) renewedBy(ctx context.Context, r *request) (renewal, error) {
	err := r.grant.note(ctx)
	if err != nil {
		return renewal{}, err
	}
	renewed, err := reg.lease.Load().Renewed(r.grant.Grant, r.sent)
	return renewal{renewed, r.addr, r.lost}, err
}

// heartbeat renews the lease and binds its connection to the node.
func (reg *registration) heartbeat(ctx context.Context) (renewal, error) {
	inventory := reg.reportInventory(ctx)
	asked := reg.config()
	r, _, err := reg.askBeside(ctx, func(ctx context.Context, server rpc.Caller) (granted, error) {
		req := &structs.NodeHeartbeatRequest{
			NodeID:    reg.id.NodeID,
			SecretID:  reg.id.SecretID,
			Status:    structs.NodeReady,
			Inventory: inventory,
			CleanFor:  reg.comeback.CleanFor(),
			Agent:     reg.proof.OfHeartbeat(),
		}

		req.Region = reg.config().Region
		agent := *req.Agent // the call owns the request
		resp, err := rpc.Call(ctx, server, structs.NodeHeartbeat, req)
		reg.proof.Answered(&agent, err)
		if err != nil {
			return granted{}, err
		}

		note := func(ctx context.Context) error {
			if reg.unkept != "" {
				reg.keepCluster(ctx, reg.unkept)
			}
			reg.learnServers(asked, resp.Servers)
			reg.noteUnaccounted(resp.Unaccounted)
			return nil
		}
		return granted{grantOf(resp.LeaseGrant), note}, nil
	})
	if err != nil {
		return renewal{}, err
	}

	return reg.renewedBy(ctx, r)
}

// grantOf returns what a leader granted.
func grantOf(g structs.LeaseGrant) membership.Grant {
	return membership.Grant{
		TTL:   cmp.Or(g.HeartbeatTTL, defaultTTL),
		Grace: g.HeartbeatGrace,
		Term:  g.LeaseTerm,
		Epoch: g.Epoch,

		Returning: g.Returning,
		Alone:     g.LeaseFor,
	}
}

// waitBeat waits until the next heartbeat is due: for a time, or less if another server than the last one's
// is first now (the leader has changed), if the connection is lost (the leader cannot call back, even if
// another call has made a new one), or if the node has to register again, which it reports.
func (reg *registration) waitBeat(ctx context.Context, wait time.Duration, last renewal) (register bool) {
	begin := time.Now()
	// The leader may have changed while the heartbeat was made.
	addr, moved := reg.servers.First()
	if addr != last.addr {
		wait = minBeatGap
	}

	select {
	case <-time.After(wait):
		return false
	case <-moved:
	case <-last.lost:
	case <-reg.due:
		register = true
	case <-ctx.Done():
		return false
	}

	// A series of changes must not become a series of heartbeats.
	backoff.Sleep(ctx, minBeatGap-time.Since(begin))
	return register
}

// tellRenewed tells the subsystems of a new lease.
func tellRenewed(s *assembly.Subsystems, l membership.Lease) {
	if s.Renewed != nil {
		s.Renewed(l)
	}
}
