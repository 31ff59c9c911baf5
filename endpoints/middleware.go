package endpoints

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-metrics"

	"berth/endpoints/core"
	"berth/endpoints/query"
	"berth/endpoints/rights"
	"berth/fsm"
	"berth/internal/level"
	"berth/internal/netfault"
	"berth/rpc"
	"berth/state"
	"berth/structs"
)

// options are common to reads and writes.
type options struct {
	region string
	// It points into the request: deliver sets it for the other server, and resets it before the next
	// attempt.
	forwarded *bool
	read      *structs.QueryOptions // nil for a write
	stale     bool                  // this server may answer by itself
	write     bool
}

// optionsOf reads the options of a request by interface, as all requests embed one of two types. The method
// and not the type of the request says whether it writes.
func optionsOf(req any, write bool) options {
	switch r := req.(type) {
	case query.ReadRequest:
		q := r.Query()
		return options{
			region:    q.Region,
			forwarded: &q.Forwarded,
			read:      q,
			stale:     q.AllowStale && !write,
			write:     write,
		}

	case interface{ Write() *structs.WriteOptions }:
		w := r.Write()
		return options{
			region:    w.Region,
			forwarded: &w.Forwarded,
			write:     write,
		}
	}

	// Every method has such a request, so only a mistake in the list of methods leads here.
	panic("a request embeds neither QueryOptions nor WriteOptions")
}

// handler serves a request of a method. The request and the answer are pointers to the types of the method.
type handler func(ctx context.Context, node *structs.Node, req any) (any, error)

// serve wraps a handler in the middleware; the package comment has the order.
func (e *Endpoints) serve(m rpc.Method, allow rights.Right, handle handler) rpc.Endpoint {
	d := delivered{
		method: m,
		allow:  allow,
		handle: handle,
	}

	return rpc.Endpoint{
		Name:          m.Name,
		Needs:         allow.String(),
		Write:         m.Write,
		New:           m.NewRequest,
		Copy:          m.CopyRequest,
		ForwardsReads: e.forwardsReads,
		Serve: func(ctx context.Context, req any) (any, error) {
			return e.deliver(ctx, d, req)
		},
	}
}

// delivered is how requests of a method are served.
type delivered struct {
	method rpc.Method
	allow  rights.Right
	handle handler
}

// deliver serves a request here or forwards it to the leader, until one of them answers. A request with a
// field that another server does not know goes nowhere: that server would drop the field and answer. Fields
// that may be dropped are emptied: a node does not know the levels, and its heartbeats must pass.
func (e *Endpoints) deliver(
	ctx context.Context,
	d delivered,
	req any,
) (resp any, err error) {
	start := time.Now()
	// The time has the forwarding in it: this is what the caller waits for. The error is the one that the
	// caller gets.
	defer func() { measureServed(d.method.Name, start, err) }()
	// These precede the forwarding, because only this server knows the certificate of the connection: the leader
	// sees this server's.
	err = rights.CheckGrant(ctx, req)
	if err == nil {
		err = e.checkCaller(ctx, d, req)
	}
	if err != nil {
		e.audits.Deny(ctx, d.call(nil, req), err)
		return nil, err
	}

	// This precedes the forwarding too: the leader may be the older server.
	err = level.Fit(req, e.Level())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.method.Name, err)
	}

	o := optionsOf(req, d.method.Write)
	attempts := e.newDelivery(o)
	// Each turn is one attempt. awaitLeader bounds the time of all.
	for {
		leader, err := e.route(ctx, o)
		if err != nil {
			return nil, err
		}

		again := false
		attempts.beginAttempt()
		// The empty address is this server.
		if leader == "" {
			resp, err = e.serveHere(ctx, d, req)
			again, err = attempts.lostLeadership(ctx, err)
		} else {
			*o.forwarded = true
			// An answer of its own for each attempt: a failed one may have filled in a part of it.
			resp = d.method.NewAnswer()
			again, err = attempts.forward(ctx, leader, func(ctx context.Context) error {
				return e.Raft.Forward(ctx, leader, d.method.Name, req, resp)
			})
		}

		if !again {
			return answered(resp, err)
		}

		// The next leader may be this server, which then must not take the request for one of another server.
		*o.forwarded = false
	}
}

// answered drops the answer that goes with an error.
func answered(resp any, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return resp, nil
}

// serveHere checks the caller with the state of this server and runs the handler. Only the server that serves
// a request does so: a forwarded request comes with its secret and its token.
func (e *Endpoints) serveHere(
	ctx context.Context,
	d delivered,
	req any,
) (any, error) {
	node, err := e.authenticate(req)
	if err == nil {
		err = e.checkSender(ctx, d.allow, node)
	}
	if err == nil {
		err = e.checkPlain(d, req)
	}

	// A node acts by its secret, whatever tokens there are. For all others the gate looks at the token.
	if err == nil && node == nil {
		err = e.checkRight(ctx, d.allow, req)
	}

	call := d.call(node, req)
	if err != nil {
		e.audits.Deny(ctx, call, err)
		return nil, err
	}

	return e.audits.Serve(ctx, call, func(ctx context.Context) (any, error) {
		return d.handle(rights.KeepSecret(ctx, req), node, req)
	})
}

// forwardsReads reports whether this server forwards all requests that it may not answer from its own state.
func (e *Endpoints) forwardsReads() bool {
	_, isMe, known, _ := e.Raft.Leader()
	return known && !isMe
}

// The kind of the error is a label, and not its text: the number of series stays bounded.
func measureServed(method string, start time.Time, err error) {
	kind := string(structs.KindOf(err))
	labels := []metrics.Label{
		{Name: "method", Value: method},
		{Name: "error", Value: kind},
	}

	metrics.MeasureSinceWithLabels([]string{"rpc", "served"}, start, labels)
}

// noLeader is the error of a request that has waited for a leader and found none.
const noLeader = "the cluster has no leader: " +
	"its servers are electing one, or too few of them reach each other; try again"

// route returns where a request is served: here (""), or at the address of the leader. It waits a while for
// a leader to be elected, but not for a second hop: two servers that take each other for the leader must
// not forward to each other in a loop.
func (e *Endpoints) route(
	ctx context.Context,
	o options,
) (leader string, err error) {
	if o.region != "" && o.region != e.Region {
		return "", structs.Invalidf("this is region %q; there is no path to region %q",
			e.Region, o.region)
	}

	// This precedes the look for a leader: a stale read is answered also during an election, and by a server
	// that is cut off.
	if o.stale {
		return "", nil
	}

	// The deadline is of one election. Each attempt of a delivery has its own.
	deadline := time.Now().Add(e.Settings.HoldTimeout)
	for {
		addr, isMe, known, _ := e.Raft.Leader()
		switch {
		// A write needs no proof of the leadership: its log entry is one. A leader without a quorum commits
		// nothing.
		case isMe && o.write:
			return "", nil
		// A leader that was frozen or cut off may not know that it was voted out. It would answer with old
		// rows, so it asks a quorum before each read.
		case isMe:
			err := e.Raft.VerifyLeader()
			if err == nil || !time.Now().Before(deadline) {
				return "", err
			}

		// A second hop is not taken. The first server gets this error and looks for the leader itself.
		case *o.forwarded && known:
			return "", structs.NotServedf(
				"the called server is not the leader any more")
		case known && addr != "":
			return addr, nil
		case !time.Now().Before(deadline):
			return "", structs.NotServedf(noLeader)
		}

		select {
		case <-time.After(core.HoldPoll):
		case <-ctx.Done():
			return "", structs.NotServedf(
				noLeader+": %w", netfault.Plain(ctx.Err()))
		}
	}
}

// read serves a method from the state. The handler fills resp, an empty answer, from tx. It may run many
// times: with MinIndex set it runs again when something that it read has changed, and also after not-found.
func read[Req, Resp any](
	e *Endpoints,
	m structs.Method[Req, Resp],
	allow rights.Right,
	handle func(tx *state.ReadTx, req *Req, resp *Resp) error,
) rpc.Endpoint {
	return e.serveRead(rpc.MethodOf(m), allow, func(_ context.Context, tx *state.ReadTx, req, resp any) error {
		return handle(tx, req.(*Req), resp.(*Resp))
	})
}

// readFor is like read, for a handler to which it matters who asks, or that takes long.
func readFor[Req, Resp any](
	e *Endpoints,
	m structs.Method[Req, Resp],
	allow rights.Right,
	handle func(ctx context.Context, tx *state.ReadTx, req *Req, resp *Resp) error,
) rpc.Endpoint {
	return e.serveRead(rpc.MethodOf(m), allow, func(ctx context.Context, tx *state.ReadTx, req, resp any) error {
		return handle(ctx, tx, req.(*Req), resp.(*Resp))
	})
}

// serveRead is read without type parameters: the compiler makes the code below once, and not for each of the
// methods.
func (e *Endpoints) serveRead(
	m rpc.Method,
	allow rights.Right,
	handle func(ctx context.Context, tx *state.ReadTx, req, resp any) error,
) rpc.Endpoint {
	// watch runs for one request. run may run many times in it, but never at the same time, so applied needs
	// no lock.
	watch := func(ctx context.Context, req any) (any, error) {
		var applied uint64
		var until rights.Until
		run := func(tx *state.ReadTx) (any, error) {
			// Again for each answer of a wait: the rights of the caller may have ended meanwhile. The wait then
			// ends, because this has read the rows of the token.
			var err error
			until, err = e.Gate.Admit(ctx, tx, allow, req)
			if err != nil {
				return nil, err
			}

			// Each run fills an empty answer: a former run may have filled in a part of the last one.
			resp := m.NewAnswer()
			// At least 1: a client sends the index back as MinIndex, and 0 there means that it does not wait.
			applied = max(1, tx.Applied())
			return resp, handle(ctx, tx, req, resp)
		}

		asked := query.Request{
			Method: m.Name,
			Body:   req,
			Holds:  func() (time.Duration, error) { return e.confirm(until) },
		}

		resp, index, err := query.Watch(ctx, e.Queries, asked, run)
		if err != nil {
			return nil, err
		}

		meta := query.MetaOf(resp)
		meta.Index = index
		if meta.Rows != nil {
			meta.Index = applied // the tables of the rows are known too late
		}

		return resp, nil
	}

	// The check in run decides instead of the middleware's, which still rejects wrong senders.
	return query.StreamRows(e.serveCall(m, allow.Deferred(), watch), m.Answer())
}

// call serves a read whose handler does more than read the state once: it calls a plugin, or has its own way
// to wait. The handler may set the index.
func call[Req, Resp any](
	e *Endpoints,
	m structs.Method[Req, Resp],
	allow rights.Right,
	handle func(context.Context, *Req) (*Resp, error),
) rpc.Endpoint {
	return e.serveCall(rpc.MethodOf(m), allow, func(ctx context.Context, req any) (any, error) {
		return handle(ctx, req.(*Req))
	})
}

// serveCall adds the facts about the leader to the answer of a handler.
func (e *Endpoints) serveCall(m rpc.Method, allow rights.Right, handle rpc.Handler) rpc.Endpoint {
	return e.serve(m, allow, func(
		ctx context.Context, _ *structs.Node, req any,
	) (any, error) {
		resp, err := handle(ctx, req)
		if err != nil {
			return nil, err
		}

		e.completeMeta(query.MetaOf(resp))
		return resp, nil
	})
}

// completeMeta fills in the index of an answer, if it has none, and the known facts about the leader.
func (e *Endpoints) completeMeta(meta *structs.QueryMeta) {
	// It is the store's, unless the handler knows a better one.
	meta.Index = cmp.Or(meta.Index, e.Store.Index(), 1)
	_, _, meta.KnownLeader, meta.LastContact = e.Raft.Leader()
}

// local serves a method that any server answers for itself, with or without a leader.
func local[Resp any](
	e *Endpoints,
	m structs.Method[structs.QueryRequest, Resp],
	allow rights.Right,
	handle func(resp *Resp),
) rpc.Endpoint {
	return e.serveLocal(rpc.MethodOf(m), allow, func(resp any) {
		handle(resp.(*Resp))
	})
}

// serveLocal is local without type parameters.
func (e *Endpoints) serveLocal(m rpc.Method, allow rights.Right, handle func(resp any)) rpc.Endpoint {
	endpoint := e.serve(m, allow, func(
		context.Context, *structs.Node, any,
	) (any, error) {
		resp := m.NewAnswer()
		handle(resp)
		// An answer with no metadata answers a ping: nothing is read.
		r, ok := resp.(query.ReadResponse)
		if ok {
			e.completeMeta(r.Meta())
		}

		return resp, nil
	})

	inner := endpoint.Serve
	// A stale request is never forwarded. The copy leaves the request of a caller in this process as it was.
	endpoint.Serve = func(ctx context.Context, req any) (any, error) {
		own := *req.(*structs.QueryRequest)
		own.AllowStale = true
		return inner(ctx, &own)
	}

	return endpoint
}

// written is the answer to a write.
type written[Resp any] interface {
	*Resp
	Written() *structs.WriteMeta
}

// write serves a method that proposes log entries. It stamps the clock. The handler fills resp, an empty
// answer, and returns the index of its last entry.
func write[Req, Resp any, W written[Resp]](
	e *Endpoints,
	m structs.Method[Req, Resp],
	allow rights.Right,
	handle func(context.Context, *Req, *Resp) (index uint64, err error),
) rpc.Endpoint {
	return e.serveWrite(rpc.MethodOf(m), allow, func(
		ctx context.Context, _ *structs.Node, req, resp any,
	) (uint64, error) {
		return handle(ctx, req.(*Req), resp.(*Resp))
	})
}

// nodeWrite is like write, for a handler that uses the row with which the node was authenticated.
func nodeWrite[Req, Resp any, W written[Resp]](
	e *Endpoints,
	m structs.Method[Req, Resp],
	allow rights.Right,
	handle func(context.Context, *structs.Node, *Req, *Resp) (index uint64, err error),
) rpc.Endpoint {
	return e.serveWrite(rpc.MethodOf(m), allow, func(
		ctx context.Context, node *structs.Node, req, resp any,
	) (uint64, error) {
		return handle(ctx, node, req.(*Req), resp.(*Resp))
	})
}

// credentials are the services whose requests make and check credentials. Their ends are by the wall clock.
var credentials = []string{"ACL", "Authority", "Certificate", "JoinToken", "Machine"}

// stamp returns the time of the log entry of a request.
func (e *Endpoints) stamp(method string) time.Time {
	service, _, _ := strings.Cut(method, ".")
	if slices.Contains(credentials, service) {
		return e.Now()
	}
	return e.Clock.Now()
}

// serveWrite is write without type parameters.
func (e *Endpoints) serveWrite(
	m rpc.Method,
	allow rights.Right,
	handle func(ctx context.Context, node *structs.Node, req, resp any) (index uint64, err error),
) rpc.Endpoint {
	endpoint := e.serve(m, allow, func(
		ctx context.Context, node *structs.Node, req any,
	) (any, error) {
		w := req.(interface{ Write() *structs.WriteOptions })
		// The state functions take the time from here, so that every server applies the entry with the same
		// time. A time that the caller has set counts for nothing.
		w.Write().Now = e.stamp(m.Name).UnixNano()
		keeper, keeps := req.(interface{ KeepSecret(secret string) })
		if keeps {
			keeper.KeepSecret(w.Write().AuthToken)
		}
		w.Write().AuthToken = "" // no entry of the log has a secret
		w.Write().Origin = nil

		resp := m.NewAnswer()
		index, err := handle(ctx, node, req, resp)
		if err != nil {
			return nil, err
		}

		// The caller passes it to its next read, which then sees the write.
		resp.(interface{ Written() *structs.WriteMeta }).Written().Index = index
		return resp, nil
	})

	// The bound applies before the request is decoded: a rejection of a large request costs little then.
	endpoint.Admit = e.Writes.Full
	return endpoint
}

// propose is the handler of a write that is one log entry and nothing else. The payload of such a command is
// the request itself, so the state function does all the checks.
func propose[P any](
	e *Endpoints,
	c fsm.Command[P],
) func(context.Context, *P, *structs.Empty) (uint64, error) {
	return func(
		ctx context.Context,
		req *P,
		_ *structs.Empty,
	) (uint64, error) {
		return fsm.Propose(ctx, e.Raft, c, req)
	}
}
