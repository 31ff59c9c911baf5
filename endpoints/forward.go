package endpoints

import (
	"context"
	"errors"
	"time"

	"berth/endpoints/query"
	"berth/internal/netfault"
	"berth/rpc"
	"berth/structs"
)

// answerTimeout bounds the time in which a leader that was voted out shows that it still answers.
const answerTimeout = 2 * time.Second

// electionDelay is how long this server may take to learn of an election after the previous leader has.
const electionDelay = 500 * time.Millisecond

// passing is a request on its way to the leader, to one after the other while they change. This server may be
// one of them.
type passing struct {
	*Endpoints
	options
	passed bool // to this server, by another one
	begun  time.Time
	tried  time.Time     // when the latest try began
	until  time.Time     // when to stop; zero before the first failure
	waits  time.Duration // how long a blocking query may wait in all, 0 for other requests
}

func (e *Endpoints) passingOf(o options) *passing {
	p := &passing{Endpoints: e, options: o, passed: *o.forwarded, begun: time.Now()}
	if o.read != nil && o.read.MinIndex > 0 {
		p.waits = query.WaitLimit(o.read)
	}
	return p
}

// beginAttempt begins an attempt. A blocking query may wait for the rest of its time.
func (p *passing) beginAttempt() {
	p.tried = time.Now()
	if p.waits > 0 {
		p.read.MaxWait = max(p.waits-p.tried.Sub(p.begun), time.Millisecond)
	}
}

// lostLeadership decides, as pass does, about a request that this server served itself. The next leader
// answers a read that waited until this server lost its leadership, unless another server has passed the read
// on: that one does so.
func (p *passing) lostLeadership(ctx context.Context, err error) (again bool, fault error) {
	if p.passed || !errors.Is(err, query.ErrLostLeadership) {
		return false, err
	}
	return p.hold(ctx, context.Background(), err)
}

// pass calls the leader. If again is true, the request has to be routed again: its leader was not reached, or
// does not lead any more, and either nothing was done or the request is a read.
func (p *passing) pass(ctx context.Context, leader string,
	call func(ctx context.Context) error,
) (again bool, err error) {
	leads := p.raft.Leads(leader)
	limited, giveUp := context.WithCancel(ctx)
	defer giveUp()
	unhook := context.AfterFunc(leads, func() {
		// A read gets its answer from the next leader. A write waits for its outcome while its leader
		// answers.
		if !p.write || !p.answers(limited, leader) {
			giveUp()
		}
	})
	err = call(limited)
	unhook()
	if err == nil || ctx.Err() != nil {
		return false, err
	}
	notDone := structs.IsKind(err, structs.KindUnavailable) &&
		(rpc.IsTransport(err) || structs.RetryAfter(err) == 0 && p.moved(ctx, leads))
	if !notDone && (p.write || !rpc.IsTransport(err)) {
		if p.write && limited.Err() != nil {
			err = structs.Timeoutf(
				"the leader changed before it answered: the write may or may not have happened; repeat it")
		}
		return false, err
	}
	return p.hold(ctx, leads, err)
}

// moved reports whether the leader that has answered does not lead any more. A former leader ends its
// blocking queries, and may know of the election before this server.
func (p *passing) moved(ctx context.Context, leads context.Context) bool {
	if p.waits > 0 {
		select {
		case <-leads.Done():
		case <-time.After(electionDelay):
		case <-ctx.Done():
		}
	}
	return leads.Err() != nil
}

// hold waits for the next attempt. It stops after the time in which a cluster elects a leader. A read that
// has waited at a leader for longer than that waits for another election, which has its own time.
func (p *passing) hold(
	ctx context.Context, leads context.Context, err error,
) (again bool, fault error) {
	now := time.Now()
	served := now.Sub(p.tried) > p.config.holdTimeout && now.Sub(p.begun) < p.waits
	if p.until.IsZero() || served {
		p.until = now.Add(p.config.holdTimeout)
	}
	if now.After(p.until) {
		return false, structs.Unavailablef(noLeader+": the last one known cannot be reached: %w", err)
	}
	select {
	case <-leads.Done():
	case <-time.After(holdPoll):
	case <-ctx.Done():
		return false, structs.Unavailablef(noLeader+": %w", netfault.Plain(ctx.Err()))
	}
	return true, nil
}

// answers reports whether a server answers.
func (e *Endpoints) answers(ctx context.Context, addr string) bool {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	err := e.raft.Forward(ctx, addr, structs.StatusPing.Name, &structs.QueryRequest{}, &structs.Empty{})
	return err == nil
}
