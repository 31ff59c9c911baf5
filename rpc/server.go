package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	stdrpc "net/rpc"
	"runtime/debug"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	msgpackrpc "github.com/hashicorp/net-rpc-msgpackrpc/v2"

	"berth/internal/codec"
	"berth/structs"
)

// Server dispatches requests to endpoints. It owns every goroutine that serves a connection; Close ends
// them and waits.
type Server struct {
	logger    hclog.Logger
	endpoints map[string]Endpoint
	limits    Limits
	all       *load // of every connection and of this process

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu     sync.Mutex
	closed bool
}

// NewServer serves the endpoints within DefaultLimits. Two of one name are a programming error and panic.
func NewServer(logger hclog.Logger, endpoints ...Endpoint) *Server {
	s := &Server{logger: logger, endpoints: make(map[string]Endpoint, len(endpoints))}
	for _, e := range endpoints {
		if _, dup := s.endpoints[e.Name]; dup {
			panic("two endpoints of the name " + e.Name)
		}
		s.endpoints[e.Name] = e
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.SetLimits(DefaultLimits())
	return s
}

// SetLimits changes the limits, before anything is served.
func (s *Server) SetLimits(l Limits) { s.limits, s.all = l, newLoad(l.AllCalls, l.AllWaiting) }

// Close ends every connection and request and waits for them.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.wg.Wait()
}

// begin counts one more connection; false once the server is closed. Whoever gets true says s.wg.Done.
func (s *Server) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.wg.Add(1)
	return true
}

// Call serves a request of the same process without any encoding. Request and answer may share memory
// with the server's state: neither may be changed by the caller afterwards.
func (s *Server) Call(ctx context.Context, method string, req, resp any) error {
	e, ok := s.endpoints[method]
	if !ok {
		return unknownMethod(method)
	}
	done, err := s.enter(ctx, e, req, nil)
	if err != nil {
		return err
	}
	defer done()
	out, err := s.serve(ctx, e, req)
	if err != nil {
		return err
	}
	return assign(resp, out)
}

// ServeConn serves a plain connection until it or the server is closed.
func (s *Server) ServeConn(conn net.Conn) {
	if !s.begin() {
		_ = conn.Close()
		return
	}
	defer s.wg.Done()
	s.serveStream(s.ctx, conn, s.newConnLoad())
}

func (s *Server) newConnLoad() *load { return newLoad(s.limits.Calls, s.limits.Waiting) }

// serveStream reads requests from one stream and serves each in a goroutine. of is the load of the
// connection that the stream belongs to.
func (s *Server) serveStream(ctx context.Context, conn net.Conn, of *load) {
	ctx, cancel := context.WithCancel(ctx)
	unhook := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer unhook()
	in := newMessages(conn, s.limits.Message)
	out := msgpackrpc.NewCodecFromHandle(false, true, conn, codec.Handle)
	var requests sync.WaitGroup
	defer requests.Wait()
	defer func() { _ = conn.Close() }()
	defer cancel() // first of all, so that handlers learn that their caller is gone
	for {
		var head stdrpc.Request
		if err := in.read(&head); err != nil {
			s.logReadError(conn, err)
			return
		}
		e, ok := s.endpoints[head.ServiceMethod]
		var body any
		if ok {
			body = e.New()
		}
		if err := in.read(body); err != nil {
			s.reply(out, &head, nil, structs.Errorf(structs.KindInvalid, "the payload of %s: %w", head.ServiceMethod, err))
			if in.lost {
				s.drain(conn)
				return
			}
			continue
		}
		if !ok {
			s.reply(out, &head, nil, unknownMethod(head.ServiceMethod))
			continue
		}
		done, err := s.enter(ctx, e, body, of) // the stream's next request waits, too
		if err != nil {
			s.reply(out, &head, nil, err)
			continue
		}
		requests.Go(func() {
			defer done()
			answer, err := s.serve(ctx, e, body)
			s.reply(out, &head, answer, err)
		})
	}
}

// drain reads on for a while without keeping anything: a caller that is still writing would not read the
// answer.
func (s *Server) drain(conn net.Conn) {
	_ = conn.SetReadDeadline(time.Now().Add(turnAwayTime))
	_, _ = io.CopyN(io.Discard, conn, 16*s.limits.Message)
}

// turnAway answers the one request of a stream that is one too many.
func (s *Server) turnAway(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(turnAwayTime))
	in, out := newMessages(conn, s.limits.Message), msgpackrpc.NewCodecFromHandle(false, true, conn, codec.Handle)
	var head stdrpc.Request
	if in.read(&head) == nil && in.read(nil) == nil {
		s.reply(out, &head, nil, s.refuse(head.ServiceMethod, "connection"))
	}
}

// turnAwayTime is how long somebody who is turned away may take to say what they wanted.
const turnAwayTime = 10 * time.Second

func unknownMethod(name string) error {
	return structs.Errorf(structs.KindInvalid, "there is no method %q", name)
}

// serve runs a handler; a panic in it is this server's fault and must not take the others down.
func (s *Server) serve(ctx context.Context, e Endpoint, req any) (answer any, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.logger.Error("a method panicked", "method", e.Name, "panic", p, "stack", string(debug.Stack()))
			answer, err = nil, structs.Errorf(structs.KindInternal, "%s panicked: %v", e.Name, p)
		}
	}()
	return e.Serve(ctx, req)
}

func (s *Server) reply(out *msgpackrpc.MsgpackCodec, req *stdrpc.Request, answer any, err error) {
	head := &stdrpc.Response{ServiceMethod: req.ServiceMethod, Seq: req.Seq}
	if err != nil {
		head.Error, answer = structs.ErrorToWire(err), struct{}{}
	}
	if err := out.WriteResponse(head, answer); err != nil {
		s.logger.Debug("an answer could not be sent", "method", req.ServiceMethod, "error", err)
	}
}

func (s *Server) logReadError(conn net.Conn, err error) {
	if s.ctx.Err() != nil || errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
		return
	}
	s.logger.Debug("a connection ended", "remote", fmt.Sprint(conn.RemoteAddr()), "error", err)
}
