package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime/debug"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/tinylib/msgp/msgp"

	"berth/internal/admission"
	"berth/internal/codec"
	"berth/structs"
)

// Server dispatches requests to endpoints. It owns every goroutine that serves a connection; Close ends
// them and waits.
type Server struct {
	logger    hclog.Logger
	endpoints map[string]*Endpoint
	limits    Limits
	all       *load // of every connection and of this process
	gate      *admission.Gate

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu     sync.Mutex
	closed bool
}

// NewServer serves the endpoints within DefaultLimits. Two of one name are a programming error and panic.
func NewServer(logger hclog.Logger, endpoints ...Endpoint) *Server {
	s := &Server{logger: logger, endpoints: make(map[string]*Endpoint, len(endpoints))}
	for _, e := range endpoints {
		if _, dup := s.endpoints[e.Name]; dup {
			panic("two endpoints of the name " + e.Name)
		}
		s.endpoints[e.Name] = &e
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

// hold counts one more connection; false once the server is closed. Whoever gets true says s.wg.Done.
func (s *Server) hold() bool {
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
	if err := s.shed(e, req); err != nil {
		return err
	}
	done, err := s.enter(ctx, method, waits(e, req), nil)
	if err != nil {
		return err
	}
	defer done()
	out, err := s.serve(ctx, e, e.Serve, e.Copy(req)) // the caller may send the same again
	if err != nil {
		return err
	}
	return assign(resp, out)
}

// ServeConn serves a plain connection until it or the server is closed.
func (s *Server) ServeConn(conn net.Conn) {
	if !s.hold() {
		_ = conn.Close()
		return
	}
	defer s.wg.Done()
	s.serveStream(s.ctx, conn, s.newConnLoad())
}

func (s *Server) newConnLoad() *load { return newLoad(s.limits.Calls, s.limits.Waiting) }

// serveStream reads requests from one stream and serves each in a goroutine, or itself where that is quick.
// of is the load of the connection that the stream belongs to.
func (s *Server) serveStream(ctx context.Context, conn net.Conn, of *load) {
	ctx, cancel := context.WithCancel(ctx)
	unhook := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer unhook()
	in, out := newMessages(conn, s.limits.Message), newWriter(conn)
	in.before = out.flush
	var requests sync.WaitGroup
	defer requests.Wait()
	defer func() { _ = conn.Close() }()
	defer cancel() // first of all, so that handlers learn that their caller is gone
	for {
		req, err := s.receive(in)
		if req == nil {
			s.logReadError(conn, err)
			return
		}
		if err == nil {
			if busy := s.shed(req.Endpoint, req.body); busy != nil {
				out.keep(s.message(req, nil, busy))
				continue
			}
			if busy := s.begin(ctx, req, of, out, &requests); busy != nil {
				out.keep(s.message(req, nil, busy)) // many are refused with one write
			}
		}
		if err != nil {
			s.reply(out, req, nil, err)
		}
		if in.lost {
			s.drain(conn)
			return
		}
	}
}

// begin serves a request or has it served, unless there is too much to do. The stream's next request waits
// while this one does for its turn.
func (s *Server) begin(ctx context.Context, req *request, of *load, out *writer, requests *sync.WaitGroup) error {
	waiting := waits(req.Endpoint, req.body)
	done, err := s.enter(ctx, req.Name, waiting, of)
	if err != nil {
		return err
	}
	finish := func() {
		defer done()
		serve := req.Serve
		if req.Wire != nil {
			serve = req.Wire
		}
		answer, err := s.serve(ctx, req.Endpoint, serve, req.body)
		s.reply(out, req, answer, err)
	}
	if !waiting && req.Quick != nil && req.Quick(req.body) {
		finish()
		return nil
	}
	requests.Go(finish)
	return nil
}

// request is what a message asks for. Of an unknown method the endpoint has but the name.
type request struct {
	*Endpoint
	seq  uint64
	body any
}

// receive reads the next request. The error is the answer to it, or the stream's where there is no request.
func (s *Server) receive(in *messages) (*request, error) {
	b, err := in.next()
	if err != nil {
		return nil, err
	}
	var head requestHead
	if err := head.decode(b); err != nil {
		return nil, fmt.Errorf("the head of a request does not decode: %w", err)
	}
	e, known := s.endpoints[string(head.method)]
	if !known {
		e = &Endpoint{Name: string(head.method), New: func() any { return nil }}
	}
	req := &request{Endpoint: e, seq: head.seq, body: e.New()}
	if err := in.read(req.body); err != nil {
		return req, structs.Errorf(structs.KindInvalid, "the payload of %s: %w", e.Name, err)
	}
	if !known {
		return req, unknownMethod(e.Name)
	}
	return req, nil
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
	in := newMessages(conn, s.limits.Message)
	if req, _ := s.receive(in); req != nil && !in.lost { // whatever it asks for
		s.reply(newWriter(conn), req, nil, s.refuse(req.Name, "connection"))
	}
}

// turnAwayTime is how long somebody who is turned away may take to say what they wanted.
const turnAwayTime = 10 * time.Second

func unknownMethod(name string) error {
	return structs.Errorf(structs.KindInvalid, "there is no method %q", name)
}

// serve runs a handler; a panic in it is this server's fault and must not take the others down.
func (s *Server) serve(ctx context.Context, e *Endpoint, handle func(context.Context, any) (any, error), req any) (answer any, err error) {
	defer s.contain(e, &err)
	return handle(ctx, req)
}

// contain makes an error of a panic.
func (s *Server) contain(e *Endpoint, err *error) {
	if p := recover(); p != nil {
		s.logger.Error("a method panicked", "method", e.Name, "panic", p, "stack", string(debug.Stack()))
		*err = structs.Errorf(structs.KindInternal, "%s panicked: %v", e.Name, p)
	}
}

// reply writes an answer, or the error in its place.
func (s *Server) reply(out *writer, req *request, answer any, err error) {
	if err := out.write(s.message(req, answer, err)); err != nil {
		s.logger.Debug("an answer could not be sent", "method", req.Name, "error", err)
	}
}

// message is an answer, or the error in its place.
func (s *Server) message(req *request, answer any, err error) *buffer {
	head := answerHead{method: req.Name, seq: req.seq}
	m := buffers.Get().(*buffer)
	m.b = head.append(m.b)
	if err == nil {
		err = s.append(m, req.Endpoint, answer)
	}
	if err != nil {
		head.failure = structs.ErrorToWire(err)
		m.next.release()
		m.next = nil
		m.b = msgp.AppendMapHeader(head.append(m.b[:0]), 0)
	}
	return m
}

// append appends an answer to a message.
func (s *Server) append(m *buffer, e *Endpoint, answer any) (err error) {
	defer s.contain(e, &err)
	if a, ok := answer.(Appender); ok {
		return a.AppendAnswer(&Answer{m})
	}
	m.b, err = codec.Append(m.b, answer)
	return err
}

func (s *Server) logReadError(conn net.Conn, err error) {
	if s.ctx.Err() != nil || errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
		return
	}
	s.logger.Debug("a connection ended", "remote", fmt.Sprint(conn.RemoteAddr()), "error", err)
}
