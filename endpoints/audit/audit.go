package audit

import (
	"context"
	"time"

	"berth/endpoints/rights"
	"berth/fsm"
	"berth/internal/auditlog"
	"berth/internal/opsocket"
	"berth/internal/pki"
	"berth/rpc"
	"berth/state"
	"berth/structs"
)

// maxError bounds the text of an error in an event, in bytes.
const maxError = 512

// Recorder writes the events of one server.
type Recorder struct {
	Log   *auditlog.Log // nil: it writes none
	Gate  *rights.Gate  // nil: requests have no tokens
	Store *state.Store
}

// Call is a request of a method.
type Call struct {
	Method string
	Write  bool
	Right  rights.Right
	Node   *structs.Node // nil: no node has sent it
	Req    any           // a pointer to the request
}

// isAudited reports whether the call is an event also when it succeeds.
func (c Call) isAudited() bool {
	return c.Right.IsForced() || c.Write && !c.Right.IsOfMachines()
}

// needsNothing reports whether anybody may call the method.
func (c Call) needsNothing() bool { return c.Right.IsOpen() && !c.Right.NeedsSocket() }

// Serve runs a handler between the two events of its change. It does not run the handler if an enforced sink
// does not take the first event. Of other calls it only records that the handler has denied them.
//
// Anybody may call a method that needs no token. The first event of its change precedes the first proposal of
// the handler, and a call without one has a single event, which is bounded as denied calls are.
func (r *Recorder) Serve(
	ctx context.Context, c Call, handle func(context.Context) (any, error),
) (any, error) {
	if r.Log == nil {
		return handle(ctx)
	}
	if !c.isAudited() {
		resp, err := handle(ctx)
		r.Deny(ctx, c, err)
		return resp, err
	}

	start := time.Now()
	// The handler removes the token and the origin of the request.
	o := opening{Recorder: r, call: c, event: r.event(ctx, c)}
	inner := ctx
	if c.needsNothing() {
		inner = fsm.Before(ctx, o.begin)
	} else {
		err := o.begin(ctx)
		if err != nil {
			return nil, err
		}
	}

	resp, err := handle(inner)
	if o.err != nil {
		return nil, o.err // whatever the handler has made of it
	}
	e := o.event
	e.Duration = float64(time.Since(start).Microseconds()) / 1000
	setResult(e, err)
	if !o.done {
		r.Log.Deny(ctx, e)
		return resp, err
	}
	if err == nil {
		addAnswer(e, c, resp)
	}
	e.After = r.rows(c, e.Objects)
	r.Log.End(ctx, e)
	return resp, err
}

// opening is the first event of a change.
type opening struct {
	*Recorder
	call  Call
	event *auditlog.Event
	done  bool
	err   error // of an enforced sink
}

// begin writes the event once.
func (o *opening) begin(ctx context.Context) error {
	if !o.done {
		o.done = true
		o.event.Before = o.rows(o.call, o.event.Objects)
		o.err = o.Log.Begin(ctx, o.event)
	}
	return o.err
}

// addAnswer adds the index and the new objects of an answer.
func addAnswer(e *auditlog.Event, c Call, resp any) {
	w, ok := resp.(interface{ Written() *structs.WriteMeta })
	if ok {
		e.Index = w.Written().Index
	}
	e.Objects = append(e.Objects, newObjects(c, resp)...)
}

// Deny records that a call was denied. Other errors are no events.
func (r *Recorder) Deny(ctx context.Context, c Call, err error) {
	if r.Log == nil || !structs.IsKind(err, structs.KindDenied) {
		return
	}
	e := r.event(ctx, c)
	setResult(e, err)
	r.Log.Deny(ctx, e)
}

func setResult(e *auditlog.Event, err error) {
	e.Result = "ok"
	if err == nil {
		return
	}
	e.Result = string(structs.KindOf(err))
	e.Error = text(err.Error(), maxError)
	if structs.IsKind(err, structs.KindDenied) {
		e.Kind = auditlog.KindDenied
	}
}

// text returns a text of a caller for a line.
func text(s string, most int) string { return auditlog.Text(s, most) }

// event returns the event of a call without its result.
func (r *Recorder) event(ctx context.Context, c Call) *auditlog.Event {
	e := &auditlog.Event{
		Kind:   auditlog.KindChange,
		Method: c.Method,
		Caller: r.caller(ctx, c),
	}
	if c.Right.IsForced() || isForced(c.Req) {
		e.Kind = auditlog.KindForced
	}

	o := originOf(c.Req)
	if o == nil {
		o = &structs.Origin{RequestID: structs.NewID()} // a call by RPC
	}
	e.RequestID = text(o.RequestID, structs.MaxName)
	e.Operation = text(o.Operation, structs.MaxName)
	e.Endpoint = text(o.Endpoint, 4*structs.MaxName)
	e.Remote = text(o.Remote, structs.MaxName)
	e.TakenBy = text(o.Agent, structs.MaxName)
	e.HandedOnBy = sender(ctx)
	e.Namespace = namespaceOf(c.Req)
	e.Objects, e.MoreObjects = r.objects(c)
	e.Reason = text(stringField(c.Req, "Reason", "Why"), maxError)
	e.DryRun = boolField(c.Req, "DryRun")
	return e
}

// sender names the machine that has sent a request by RPC, "" for this process.
func sender(ctx context.Context) string {
	peer, secured := rpc.PeerFrom(ctx)
	switch {
	case secured:
		return peer.String()
	case rpc.FromOutside(ctx):
		return "a machine without a certificate"
	}
	return ""
}

// caller says who has sent a request.
func (r *Recorder) caller(ctx context.Context, c Call) auditlog.Caller {
	// Also of a token that has ended: its accessor says whose it was.
	is := auditlog.CallerOf(r.Gate.Sender(r.Store.Read(), c.Req))
	is.Socket = opsocket.Marked(ctx)
	if c.Node != nil {
		is.Node = c.Node.ID
	}

	o := originOf(c.Req)
	if o != nil {
		is.Certificate = text(o.Certificate, structs.MaxName)
		is.Socket = is.Socket || o.Socket
	}
	peer, secured := rpc.PeerFrom(ctx)
	if secured && peer.Role != pki.RoleServer && is.Certificate == "" {
		is.Certificate = peer.String()
	}
	return is
}

// originOf returns the origin of a request, nil for one by RPC.
func originOf(req any) *structs.Origin {
	switch r := req.(type) {
	case interface{ Query() *structs.QueryOptions }:
		return r.Query().Origin
	case interface{ Write() *structs.WriteOptions }:
		return r.Write().Origin
	}
	return nil
}

func namespaceOf(req any) string {
	r, ok := req.(interface{ RequestNamespace() string })
	if !ok {
		return ""
	}
	return text(r.RequestNamespace(), structs.MaxName)
}
