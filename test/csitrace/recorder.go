package csitrace

import (
	"context"
	"path"
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Recorder takes the calls of instances of plugins. The zero value is ready.
type Recorder struct {
	mu       sync.Mutex
	position int
	calls    []*Call
	began    chan struct{} // closed and renewed with each start; nil while nobody waits
}

// Serve answers a call.
type Serve func(ctx context.Context, req any) (answer any, err error)

// Around answers a call in place of the plugin, or with the plugin's own Serve. So a test lets calls fail.
type Around func(ctx context.Context, rpc string, req any, serve Serve) (answer any, err error)

// Intercept returns the interceptor of an instance on a node. It has to be the outermost one, so that it
// sees the code that the caller gets. node is the node_id that the instance answers. around may be nil.
func (r *Recorder) Intercept(instance, node string, around Around) grpc.UnaryServerInterceptor {
	if around == nil {
		around = func(ctx context.Context, _ string, req any, serve Serve) (any, error) { return serve(ctx, req) }
	}
	return func(
		ctx context.Context, req any, info *grpc.UnaryServerInfo, serve grpc.UnaryHandler,
	) (any, error) {
		c := &Call{Instance: instance, Node: node, RPC: path.Base(info.FullMethod)}
		c.Request = cloneOf(req)
		r.begin(c)
		answer, err := around(ctx, c.RPC, req, Serve(serve))
		// A caller that has gone gets no answer, also if the plugin has one.
		if err == nil && ctx.Err() != nil {
			err = status.FromContextError(ctx.Err()).Err()
		}
		r.end(c, answer, err)
		return answer, err
	}
}

// PowerLoss records that a node has lost its power: it has no mounts any more. The caller has to have ended
// the instances of the node.
func (r *Recorder) PowerLoss(node string) {
	c := &Call{Node: node, RPC: PowerLoss}
	r.begin(c)
	r.end(c, nil, nil)
}

// Trace returns the calls so far, in the order of their starts. Calls in flight have no code. The messages
// are shared and must not be changed.
func (r *Recorder) Trace() []*Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	trace := slices.Clone(r.calls)
	for i, c := range trace {
		now := *c
		trace[i] = &now
	}
	return trace
}

// Next returns a channel that is closed when the next call begins.
func (r *Recorder) Next() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.began == nil {
		r.began = make(chan struct{})
	}
	return r.began
}

func (r *Recorder) begin(c *Call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.began != nil {
		close(r.began)
		r.began = nil
	}
	r.position++
	c.Start = r.position
	r.calls = append(r.calls, c)
}

func (r *Recorder) end(c *Call, answer any, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.position++
	c.End = r.position
	c.Code = status.Code(err).String()
	if err == nil {
		c.Answer = cloneOf(answer)
	}
}

// cloneOf copies a message, because the plugin goes on with its own. It returns nil for any other value.
func cloneOf(v any) proto.Message {
	m, ok := v.(proto.Message)
	if !ok {
		return nil
	}
	return proto.Clone(m)
}
