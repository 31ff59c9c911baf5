package endpoints

import (
	"context"
	"time"

	"berth/endpoints/query"
	"berth/internal/netfault"
	"berth/rpc"
	"berth/structs"
)

// answerTimeout bounds the time in which a leader that was voted out shows that it still answers.
const answerTimeout = 2 * time.Second

// passing is a request that this server passes on to the leader, and to the next one if the leader changes.
type passing struct {
	*Endpoints
	write bool
	begun time.Time
	until time.Time // when to give up; zero before the first failure
	wait  *structs.QueryOptions
	limit time.Duration // how long wait may wait in all
}

func (e *Endpoints) passingOf(req any, write bool) *passing {
	p := &passing{Endpoints: e, write: write, begun: time.Now()}
	if r, ok := req.(interface{ Query() *structs.QueryOptions }); ok && r.Query().MinIndex > 0 {
		p.wait, p.limit = r.Query(), query.WaitLimit(r.Query())
	}
	return p
}

// pass calls the leader. It reports again if the request has to be routed anew: the leader was not reached
// or has lost its leadership, and nothing was done or the request is a read.
func (p *passing) pass(ctx context.Context, leader string,
	call func(ctx context.Context) error,
) (again bool, err error) {
	if p.wait != nil {
		p.wait.MaxWait = max(p.limit-time.Since(p.begun), time.Millisecond)
	}
	leads := p.raft.Leads(leader)
	limited, giveUp := context.WithCancel(ctx)
	defer giveUp()
	unhook := context.AfterFunc(leads, func() {
		// A read gets its answer from the next leader. A write waits for its outcome as long as its leader
		// answers at all.
		if !p.write || !p.answers(limited, leader) {
			giveUp()
		}
	})
	err = call(limited)
	unhook()
	if err == nil || ctx.Err() != nil {
		return false, err
	}
	moved, kind := leads.Err() != nil, structs.KindOf(err)
	notDone := kind == structs.KindUnavailable &&
		(rpc.IsTransport(err) || moved && structs.RetryAfter(err) == 0)
	if !notDone && (p.write || !rpc.IsTransport(err)) {
		if p.write && limited.Err() != nil {
			err = structs.Errorf(structs.KindTimeout,
				"the leader changed before it answered: the write may or may not have happened; repeat it")
		}
		return false, err
	}
	return p.hold(ctx, leads, err)
}

// hold waits for the next try. It gives up after the time in which a cluster elects a leader.
func (p *passing) hold(ctx context.Context, leads context.Context, err error) (again bool, fault error) {
	now := time.Now()
	if p.until.IsZero() {
		p.until = now.Add(p.config.HoldTimeout)
	}
	if now.After(p.until) {
		return false, structs.Errorf(structs.KindUnavailable,
			noLeader+": the last one known cannot be reached: %w", err)
	}
	timer := time.NewTimer(holdPoll)
	defer timer.Stop()
	select {
	case <-leads.Done():
	case <-timer.C:
	case <-ctx.Done():
		return false, structs.Errorf(structs.KindUnavailable, noLeader+": %w", netfault.Plain(ctx.Err()))
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
