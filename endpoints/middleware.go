package endpoints

import (
	"cmp"
	"context"
	"time"

	"github.com/hashicorp/go-metrics"

	"berth/endpoints/query"
	"berth/fsm"
	"berth/internal/netfault"
	"berth/rpc"
	"berth/state"
	"berth/structs"
)

// options are common to reads and writes.
type options struct {
	region    string
	forwarded *bool
	read      *structs.QueryOptions // nil for a write
	stale     bool                  // this server may answer by itself
	write     bool
}

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
	panic("a request embeds neither QueryOptions nor WriteOptions")
}

// serve wraps a handler in the middleware; the package comment has the order.
func serve[Req, Resp any](
	e *Endpoints,
	m structs.Method[Req, Resp],
	allow rule,
	handler func(context.Context, *structs.Node, *Req) (*Resp, error),
) rpc.Endpoint {
	deliver := func(ctx context.Context, req *Req) (*Resp, error) {
		var resp *Resp
		err := e.deliver(ctx, delivered{
			method: m.Name,
			write:  m.Write,
			req:    req,
			allow:  allow,
			handle: func(ctx context.Context, node *structs.Node) (err error) {
				resp, err = handler(ctx, node, req)
				return err
			},
			forward: func(ctx context.Context, leader string) error {
				resp = new(Resp)
				return e.raft.Forward(ctx, leader, m.Name, req, resp)
			},
		})
		return resp, err
	}
	endpoint := rpc.Handle(m, deliver)
	endpoint.ForwardsReads = e.forwardsReads
	return endpoint
}

// delivered is a request on its way to the server that answers it. The two functions keep the response.
type delivered struct {
	method  string
	write   bool
	req     any
	allow   rule
	handle  func(ctx context.Context, node *structs.Node) error
	forward func(ctx context.Context, leader string) error
}

// deliver serves a request here or forwards it to the leader, until one of them answers. It does not know the
// types of the request and of the response, so that its code is in the program once and not for each method.
func (e *Endpoints) deliver(ctx context.Context, r delivered) (err error) {
	start := time.Now()
	defer func() { measureServed(r.method, start, err) }()
	o := optionsOf(r.req, r.write)
	d := e.newDelivery(o)
	for {
		leader, err := e.route(ctx, o)
		if err != nil {
			return err
		}
		again := false
		d.beginAttempt()
		if leader == "" {
			err = e.serveHere(ctx, r)
			again, err = d.lostLeadership(ctx, err)
		} else {
			err = e.refuseDropped(r.req)
			if err != nil {
				return err
			}
			*o.forwarded = true
			again, err = d.forward(ctx, leader, func(ctx context.Context) error {
				return r.forward(ctx, leader)
			})
		}
		if !again {
			return err
		}
		*o.forwarded = false
	}
}

func (e *Endpoints) serveHere(ctx context.Context, r delivered) error {
	node, err := e.authenticate(r.req)
	if err == nil {
		err = r.allow(node)
	}
	if err != nil {
		return err
	}
	return r.handle(ctx, node)
}

// forwardsReads reports whether this server forwards all requests that it may not answer from its own state.
func (e *Endpoints) forwardsReads() bool {
	_, isMe, known, _ := e.raft.Leader()
	return known && !isMe
}

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

// holdPoll is how often a request that waits for an election looks for its result.
const holdPoll = 50 * time.Millisecond

// route returns where a request is served: here (""), or at the address of the leader. It waits a while for
// a leader to be elected, but not for a second hop: two servers that take each other for the leader must
// not forward to each other in a loop.
func (e *Endpoints) route(
	ctx context.Context,
	o options,
) (leader string, err error) {
	if o.region != "" && o.region != e.region {
		return "", structs.Invalidf("this is region %q; there is no path to region %q",
			e.region, o.region)
	}
	if o.stale {
		return "", nil
	}
	deadline := time.Now().Add(e.config.holdTimeout)
	for {
		addr, isMe, known, _ := e.raft.Leader()
		switch {
		case isMe && o.write:
			return "", nil
		case isMe:
			err := e.raft.VerifyLeader()
			if err == nil || !time.Now().Before(deadline) {
				return "", err
			}
		case *o.forwarded && known:
			return "", structs.NotServedf(
				"the called server is not the leader any more")
		case known && addr != "":
			return addr, nil
		case !time.Now().Before(deadline):
			return "", structs.NotServedf(noLeader)
		}
		select {
		case <-time.After(holdPoll):
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
	allow rule,
	handler func(tx *state.ReadTx, req *Req, resp *Resp) error,
) rpc.Endpoint {
	watch := func(ctx context.Context, req *Req) (*Resp, error) {
		var applied uint64
		run := func(tx *state.ReadTx) (*Resp, error) {
			resp := new(Resp)
			applied = max(1, tx.Applied())
			return resp, handler(tx, req, resp)
		}
		asked := query.Request{
			Method: m.Name,
			Body:   req,
		}
		resp, index, err := query.Watch(ctx, e.queries, asked, run)
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
	return query.StreamRows[Resp](call(e, m, allow, watch))
}

// call serves a read whose handler does more than read the state once: it calls a plugin, or has its own way
// to wait. The handler may set the index.
func call[Req, Resp any](
	e *Endpoints,
	m structs.Method[Req, Resp],
	allow rule,
	handler func(context.Context, *Req) (*Resp, error),
) rpc.Endpoint {
	serveCall := func(
		ctx context.Context,
		_ *structs.Node,
		req *Req,
	) (*Resp, error) {
		resp, err := handler(ctx, req)
		if err != nil {
			return nil, err
		}
		e.completeMeta(query.MetaOf(resp))
		return resp, nil
	}
	return serve(e, m, allow, serveCall)
}

// completeMeta fills in the index of an answer, if it has none, and the known facts about the leader.
func (e *Endpoints) completeMeta(meta *structs.QueryMeta) {
	meta.Index = cmp.Or(meta.Index, e.store.Index(), 1)
	_, _, meta.KnownLeader, meta.LastContact = e.raft.Leader()
}

// local serves a method that any server answers for itself, with or without a leader.
func local[Resp any](
	e *Endpoints,
	m structs.Method[structs.QueryRequest, Resp],
	handler func(resp *Resp),
) rpc.Endpoint {
	serveLocal := func(
		context.Context, *structs.Node, *structs.QueryRequest,
	) (*Resp, error) {
		resp := new(Resp)
		handler(resp)
		r, ok := any(resp).(query.ReadResponse)
		if ok {
			e.completeMeta(r.Meta())
		}
		return resp, nil
	}
	endpoint := serve(e, m, anyone, serveLocal)
	inner := endpoint.Serve
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
	allow rule,
	handler func(context.Context, *Req, *Resp) (index uint64, err error),
) rpc.Endpoint {
	ignoreNode := func(
		ctx context.Context,
		_ *structs.Node,
		req *Req,
		resp *Resp,
	) (uint64, error) {
		return handler(ctx, req, resp)
	}
	return report[Req, Resp, W](e, m, allow, ignoreNode)
}

// report is like write, for a handler that uses the row with which the node was authenticated.
func report[Req, Resp any, W written[Resp]](
	e *Endpoints,
	m structs.Method[Req, Resp],
	allow rule,
	handler func(context.Context, *structs.Node, *Req, *Resp) (index uint64, err error),
) rpc.Endpoint {
	serveWrite := func(
		ctx context.Context,
		node *structs.Node,
		req *Req,
	) (*Resp, error) {
		w := any(req).(interface{ Write() *structs.WriteOptions })
		w.Write().Now = e.now().UnixNano()
		resp := new(Resp)
		index, err := handler(ctx, node, req, resp)
		if err != nil {
			return nil, err
		}
		W(resp).Written().Index = index
		return resp, nil
	}
	endpoint := serve(e, m, allow, serveWrite)
	endpoint.Admit = e.writes.Full
	return endpoint
}

// propose is the handler of a write that is one log entry and nothing else.
func propose[P any](
	e *Endpoints,
	c fsm.Command[P],
) func(context.Context, *P, *structs.Empty) (uint64, error) {
	return func(
		ctx context.Context,
		req *P,
		_ *structs.Empty,
	) (uint64, error) {
		return fsm.Propose(ctx, e.raft, c, req)
	}
}
