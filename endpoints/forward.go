package endpoints

import (
	"context"
	"errors"
	"time"

	"berth/endpoints/core"
	"berth/endpoints/query"
	"berth/internal/netfault"
	"berth/rpc"
	"berth/structs"
	"berth/structs/cluster"
)

// electionDelay is how long this server may take to learn of an election after the previous leader has. It
// bounds only the wait before an error: an answer of the next leader is not delayed by it.
const electionDelay = 500 * time.Millisecond

// delivery is a request on its way to the leader, to several leaders in turn while they change. This server
// may be one of them.
type delivery struct {
	*Endpoints
	options
	received bool // from another server, which forwarded it
	begun    time.Time
	tried    time.Time     // when the latest attempt began
	until    time.Time     // when to stop; zero before the first failure
	maxWait  time.Duration // of a blocking query over all attempts, 0 for other requests
}

// newDelivery notes how long a blocking query may wait in all. Another leader must not begin its time anew.
func (e *Endpoints) newDelivery(o options) *delivery {
	d := &delivery{
		Endpoints: e,
		options:   o,
		received:  *o.forwarded,
		begun:     time.Now(),
	}

	if o.read != nil && o.read.MinIndex > 0 {
		d.maxWait = query.WaitLimit(o.read)
	}

	return d
}

// beginAttempt begins an attempt. A blocking query may wait for the rest of its time.
func (d *delivery) beginAttempt() {
	d.tried = time.Now()
	// The server that serves the attempt takes MaxWait from the request, so the request has what is left. 0
	// would be the default of 5 minutes there, hence the minimum.
	if d.maxWait > 0 {
		rest := d.maxWait - d.tried.Sub(d.begun)
		d.read.MaxWait = max(rest, time.Millisecond)
	}
}

// lostLeadership decides, as forward does, about a request that this server served itself. The next leader
// answers a read that waited until this server lost its leadership. If another server has forwarded the read,
// that server calls the next leader.
func (d *delivery) lostLeadership(
	ctx context.Context,
	err error,
) (again bool, fault error) {
	// A forwarded request makes no second hop, so only the server that forwarded it can go on.
	if d.received || !errors.Is(err, query.ErrLostLeadership) {
		return false, err
	}

	// This server itself has lost the leadership, so there is no context of a leader to wait for: only the
	// poll.
	return d.awaitLeader(ctx, context.Background(), err)
}

// forward calls the leader. If again is true, the request has to be routed again: its leader was not reached,
// or does not lead any more, and either nothing was done or the request is a read.
func (d *delivery) forward(
	ctx context.Context,
	leader string,
	call func(ctx context.Context) error,
) (again bool, err error) {
	// The context ends with the leadership, and not with the connection: a frozen leader keeps its
	// connections.
	leads := d.Raft.Leads(leader)

	limited, giveUp := context.WithCancel(ctx)
	defer giveUp()

	unhook := context.AfterFunc(leads, func() {
		// A read gets its answer from the next leader. A write waits for its outcome while its leader
		// answers.
		if !d.write || !d.serverAnswers(limited, leader) {
			giveUp()
		}
	})

	// The call ends early when the caller gives up, or when giveUp decides that this leader will not answer.
	err = call(limited)
	unhook()
	// When the caller has gone, another attempt has no purpose. The error comes from the call.
	if err == nil || ctx.Err() != nil {
		return false, err
	}

	// A write is repeated only if it cannot have happened: the request never left this server, or the called
	// server says that it has not served it. A read changes nothing, so it is repeated after each fault of
	// the transport.
	notReached := rpc.IsTransport(err)
	notDone := structs.IsKind(err, structs.KindUnavailable) && notReached ||
		structs.IsNotServed(err) && d.leaderMoved(ctx, leads)
	if notDone || !d.write && notReached {
		return d.awaitLeader(ctx, leads, err)
	}

	// The request was sent, and the log of the next leader may have its entry or not. Only the caller can
	// find out.
	if d.write && limited.Err() != nil {
		err = structs.Timeoutf(
			"the leader changed before it answered: the write may or may not have happened; repeat it")
	}

	return false, err
}

// leaderMoved reports whether the leader that has answered does not lead any more. A former leader ends its
// blocking queries, and may know of the election before this server.
func (d *delivery) leaderMoved(ctx, leads context.Context) bool {
	// Only a blocking query ends so. The error of another request is not delayed.
	if d.maxWait > 0 {
		select {
		case <-leads.Done():
		case <-time.After(electionDelay):
		case <-ctx.Done():
		}
	}

	return leads.Err() != nil
}

// awaitLeader waits for the next attempt. It stops after the time in which a cluster elects a leader. A read
// that has waited at a leader for longer than that waits for another election, which has its own time.
func (d *delivery) awaitLeader(
	ctx, leads context.Context,
	err error,
) (again bool, fault error) {
	now := time.Now()
	served := now.Sub(d.tried) > d.Settings.HoldTimeout &&
		now.Sub(d.begun) < d.maxWait
	// The first failure begins the time. A query that was served for longer begins it again, because the
	// leader that served it was elected.
	if d.until.IsZero() || served {
		d.until = now.Add(d.Settings.HoldTimeout)
	}

	if now.After(d.until) {
		return false, structs.NotServedf(
			noLeader+": the last one known cannot be reached: %w", err)
	}

	// This server may learn of the election by the end of the leadership, or only later: the poll covers
	// that.
	select {
	case <-leads.Done():
	case <-time.After(core.HoldPoll):
	case <-ctx.Done():
		return false, structs.NotServedf(
			noLeader+": %w", netfault.Plain(ctx.Err()))
	}

	return true, nil
}

// serverAnswers reports whether a server answers a ping soon (core.Settings.AnswerTimeout).
func (e *Endpoints) serverAnswers(ctx context.Context, addr string) bool {
	ctx, cancel := context.WithTimeout(ctx, e.Settings.AnswerTimeout)
	defer cancel()

	// A ping needs neither a leader nor the state, so every server that runs answers it.
	err := e.Raft.Forward(ctx, addr, cluster.StatusPing.Name,
		new(structs.QueryRequest), new(structs.Empty))
	return err == nil
}
