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

	"github.com/hashicorp/go-hclog"
	msgpackrpc "github.com/hashicorp/net-rpc-msgpackrpc/v2"

	"berth/internal/codec"
	"berth/structs"
)

// maxInFlight bounds the requests that one stream may have under way: its reader waits beyond that.
const maxInFlight = 256

// Server dispatches requests to endpoints. It owns every goroutine that serves a connection; Close ends
// them and waits.
type Server struct {
	logger    hclog.Logger
	endpoints map[string]Endpoint

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu     sync.Mutex
	closed bool
}

// NewServer serves the endpoints. Two of one name are a programming error and panic.
func NewServer(logger hclog.Logger, endpoints ...Endpoint) *Server {
	s := &Server{logger: logger, endpoints: make(map[string]Endpoint, len(endpoints))}
	for _, e := range endpoints {
		if _, dup := s.endpoints[e.Name]; dup {
			panic("two endpoints of the name " + e.Name)
		}
		s.endpoints[e.Name] = e
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

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
	s.serveStream(s.ctx, conn)
}

// serveStream reads requests from one stream and serves each in a goroutine. Reading and writing have a
// codec each, because the library's Close is not safe beside a reader.
func (s *Server) serveStream(ctx context.Context, conn net.Conn) {
	ctx, cancel := context.WithCancel(ctx)
	unhook := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer unhook()
	in := msgpackrpc.NewCodecFromHandle(true, false, conn, codec.Handle)
	out := msgpackrpc.NewCodecFromHandle(false, true, conn, codec.Handle)
	var requests sync.WaitGroup
	defer requests.Wait()
	defer func() { _ = conn.Close() }()
	defer cancel() // first of all, so that handlers learn that their caller is gone
	slots := make(chan struct{}, maxInFlight)
	for {
		var head stdrpc.Request
		if err := in.ReadRequestHeader(&head); err != nil {
			s.logReadError(conn, err)
			return
		}
		e, ok := s.endpoints[head.ServiceMethod]
		var body any
		if ok {
			body = e.New()
		}
		if err := in.ReadRequestBody(body); err != nil {
			// Where the next request begins in the stream is unknown now: answer and hang up.
			s.reply(out, &head, nil, structs.Errorf(structs.KindInvalid, "the payload of %s does not decode: %v", head.ServiceMethod, err))
			return
		}
		if !ok {
			s.reply(out, &head, nil, unknownMethod(head.ServiceMethod))
			continue
		}
		slots <- struct{}{}
		requests.Go(func() {
			defer func() { <-slots }()
			answer, err := s.serve(ctx, e, body)
			s.reply(out, &head, answer, err)
		})
	}
}

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
