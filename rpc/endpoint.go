package rpc

import (
	"context"
	"reflect"

	"berth/structs"
)

// Caller calls a method by name: a pool bound to servers, a session, or a server in the same process. resp
// points to the struct of the answer.
type Caller interface {
	Call(ctx context.Context, method string, req, resp any) error
}

// Call calls a method with its own types.
func Call[Req, Resp any](
	ctx context.Context, c Caller, m structs.Method[Req, Resp], req *Req,
) (*Resp, error) {
	resp := new(Resp)
	err := c.Call(ctx, m.Name, req, resp)
	if err != nil {
		return nil, err
	}
	return resp, nil
}

// Endpoint serves one method. New makes an empty request to decode into, and Copy a copy of a caller's
// request. Serve gets one of these, may change it, and returns a pointer to the answer. Slow marks calls that
// may take long, for instance for a plugin (see Limits).
//
// Inline, if not nil, reports whether a request takes well under a millisecond and waits for nothing. The
// goroutine that read it then serves it: the next request of the stream waits, and the handler does not
// notice the end of its caller's connection.
//
// Sheddable marks requests that the server may reject during an overload (see Server.Shed). ForwardsReads, if
// not nil, reports whether this server forwards a request that needs the leader: the gate of the other server
// decides then.
//
// Admit, if not nil, rejects a request beyond the bound of the endpoint before it is decoded. Its argument is
// the number of admitted requests whose serving has not begun. Serve may still reject an admitted request.
//
// ServeRemote, if not nil, serves requests of other processes in place of Serve. Its answer may be an
// Appender.
type Endpoint struct {
	Name      string
	Needs     string // what its caller needs, for people
	Write     bool
	Slow      bool
	Sheddable bool
	Inline    func(req any) bool

	ForwardsReads func() bool
	Admit         func(coming int) error

	New         func() any
	Copy        func(req any) any
	Serve       Handler
	ServeRemote Handler
}

// Handler serves a request and returns its answer.
type Handler = func(ctx context.Context, req any) (any, error)

// Appender is an answer that appends itself to a message, as one msgpack value.
type Appender interface {
	AppendResponse(*Response) error
}

// Handle returns the endpoint of a method whose requests a function serves.
func Handle[Req, Resp any](
	m structs.Method[Req, Resp], serve func(context.Context, *Req) (*Resp, error),
) Endpoint {
	return Endpoint{
		Name:  m.Name,
		Write: m.Write,
		New:   func() any { return new(Req) },
		Copy: func(req any) any {
			return new(*req.(*Req))
		},
		Serve: func(ctx context.Context, req any) (any, error) {
			resp, err := serve(ctx, req.(*Req))
			if err != nil {
				return nil, err // not resp: a nil *Resp in an interface is not nil
			}
			return resp, nil
		},
	}
}

// assignAnswer copies an answer into the caller's struct, for calls that stay in the process.
func assignAnswer(dst, src any) error {
	d := reflect.ValueOf(dst)
	s := reflect.ValueOf(src)
	if d.Type() != s.Type() {
		return structs.Internalf("the answer is a %s, the caller expects a %s",
			s.Type(), d.Type())
	}
	d.Elem().Set(s.Elem())
	return nil
}
