package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/tinylib/msgp/msgp"

	"berth/internal/codec"
	"berth/internal/loadshed"
	"berth/structs"
)

// Server dispatches requests to endpoints. It owns each goroutine that serves a connection; Close ends them
// and waits.
type Server struct {
	logger    hclog.Logger
	endpoints map[string]*Endpoint
	limits    Limits
	all       *load // of every connection and of this process
	bytes     *loadshed.Budget
	gate      *loadshed.Gate // nil: no read is rejected
	coming    atomic.Int64   // requests that Endpoint.Admit admitted and whose serving has not begun

	mu     sync.Mutex      // of the end of ctx
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// NewServer returns a server of the endpoints within DefaultLimits. It panics if two have the same name.
func NewServer(logger hclog.Logger, endpoints ...Endpoint) *Server {
	s := &Server{
		logger:    logger,
		endpoints: make(map[string]*Endpoint, len(endpoints)),
	}
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

// SetLimits changes the limits, before the first request.
func (s *Server) SetLimits(l Limits) {
	s.limits = l
	s.all = newLoad(l.AllCalls, l.AllWaiting)
	s.bytes = loadshed.NewBudget(l.InFlight)
}

// Close ends every connection and request and waits for them.
func (s *Server) Close() {
	s.mu.Lock()
	s.cancel()
	s.mu.Unlock()
	s.wg.Wait()
}

// addConn counts one more connection, for which the caller calls s.wg.Done. It returns false once the server
// is closed.
func (s *Server) addConn() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return false
	}
	s.wg.Add(1)
	return true
}

// Call serves a request of the same process without any encoding. Request and answer may share memory with
// the state of the server: the caller changes neither afterwards.
func (s *Server) Call(ctx context.Context, method string, req, resp any) error {
	e, ok := s.endpoints[method]
	if !ok {
		return unknownMethod(method)
	}

	if err := s.admit(e); err != nil {
		return err
	}

	if e.Inline == nil { // a rejection of an inline read costs as much as its answer
		err := s.shed(e, req)
		if err != nil {
			return err
		}
	}

	done, err := s.enter(ctx, method, waits(e, req), nil)
	if err != nil {
		return err
	}
	defer done()

	out, err := s.serve(ctx, e, e.Serve,
		e.Copy(req)) // the caller may send the same again
	if err != nil {
		return err
	}

	return assignAnswer(resp, out)
}

// ServeConn serves a plain connection until it or the server is closed.
func (s *Server) ServeConn(conn net.Conn) {
	if !s.addConn() {
		_ = conn.Close()
		return
	}
	defer s.wg.Done()
	s.serveStream(s.contextOf(conn), conn, s.newConnLoad())
}

func (s *Server) newConnLoad() *load {
	return newLoad(s.limits.Calls, s.limits.Waiting)
}

// requestStream is one stream whose requests the server serves.
type requestStream struct {
	load    *load // of the connection of the stream
	out     *writer
	workers *workers
}

// serveStream reads requests from one stream and serves each, inline or in a worker. of is the load of the
// connection of the stream.
func (s *Server) serveStream(ctx context.Context, conn net.Conn, of *load) {
	ctx, cancel := context.WithCancel(ctx)
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	in := newMessages(conn, s.limits.Message)
	out := newWriter(conn)
	in.before = out.flush
	in.budget = s.bytes
	defer in.free()
	st := &requestStream{
		load:    of,
		out:     out,
		workers: newWorkers(),
	}
	defer st.workers.close()
	defer func() { _ = conn.Close() }()
	defer cancel() // runs first, so that handlers notice the end of the connection
	for {
		q, err := s.receive(in)
		if q.Endpoint == nil {
			out.flush()
			s.logReadError(conn, err)
			return
		}
		if err == nil {
			err = s.answer(ctx, &q, st)
		}
		if err != nil {
			// One write has the answers of many rejections.
			out.keep(s.message(q.Endpoint, q.seq, nil, err))
		}

		if in.lost {
			out.flush()
			s.drainConn(conn)
			return
		}
	}
}

// answer serves a request, or starts to serve it in a worker. The caller sends an error as the answer.
func (s *Server) answer(ctx context.Context, q *inbound, st *requestStream) error {
	err := s.admit(q.Endpoint)
	if err != nil {
		return err
	}

	req := &request{
		Endpoint: q.Endpoint,
		seq:      q.seq,
		body:     q.New(),
	}

	err = s.weighRequest(q, req)
	if err != nil {
		return err
	}

	err = s.decodeRequest(q, req)
	if err == nil {
		err = s.beginRequest(ctx, req, st)
	}
	if err != nil {
		s.bytes.Give(req.counted)
	}

	return err
}

// decodeRequest decodes the payload of a request, and rejects a read that the gate does not admit.
func (s *Server) decodeRequest(q *inbound, req *request) error {
	err := codec.Decode(q.payload, req.body)
	if err != nil {
		return structs.Invalidf("the payload of %s cannot be decoded: %w", q.Name, err)
	}
	return s.shed(q.Endpoint, req.body)
}

// beginRequest waits for a permit, and then serves a request or starts to serve it in a worker. The next
// request of the stream waits meanwhile.
func (s *Server) beginRequest(ctx context.Context, req *request, st *requestStream) error {
	waiting := waits(req.Endpoint, req.body)
	if waiting {
		err := s.countBytes(req, structs.SmallWaitingRPC)
		if err != nil {
			return err
		}
	}

	done, err := s.enter(ctx, req.Name, waiting, st)
	if err != nil {
		return err
	}

	if req.Admit != nil {
		s.coming.Add(1)
	}

	switch {
	case waiting || req.Inline == nil || !req.Inline(req.body):
		st.workers.run(func() {
			s.send(st.out, req.Name, s.perform(ctx, req, done))
		})
	case req.Sheddable: // a read from memory: its answer waits for the requests that came with it
		st.out.keep(s.perform(ctx, req, done))
	default: // it may go through the log
		st.out.flush()
		s.send(st.out, req.Name, s.perform(ctx, req, done))
	}

	return nil
}

// perform serves a request and returns its answer.
func (s *Server) perform(ctx context.Context, req *request, done func()) *buffer {
	defer done()
	defer s.bytes.Give(req.counted)
	if req.Admit != nil {
		s.coming.Add(-1)
	}
	serve := req.Serve
	if req.ServeRemote != nil {
		serve = req.ServeRemote
	}
	answer, err := s.serve(ctx, req.Endpoint, serve, req.body)
	return s.message(req.Endpoint, req.seq, answer, err)
}

// inbound is a request as it arrived. An unknown method has only a name.
type inbound struct {
	*Endpoint
	seq     uint64
	payload []byte // valid until the next request is read
	parts   int    // of the payload
}

// request is a request that is decoded.
type request struct {
	*Endpoint
	seq     uint64
	body    any
	weight  int64 // bytes of memory that it takes, about
	counted int64 // the bytes that count among the requests in flight: all or none
}

// receive reads the next request. The error is the answer to it, or the stream's if there is no request.
func (s *Server) receive(in *messages) (q inbound, err error) {
	b, err := in.next()
	if err != nil {
		return q, err
	}

	var head requestHeader
	if err := head.decode(b); err != nil {
		return q, fmt.Errorf("the head of a request cannot be decoded: %w", err)
	}

	e, known := s.endpoints[string(head.method)]
	if !known {
		e = &Endpoint{Name: string(head.method)}
	}

	q = inbound{Endpoint: e, seq: head.seq}
	q.payload, err = in.next()
	q.parts = in.parts
	switch {
	case errors.Is(err, errFull):
		return q, s.reject(e.Name, "bytes")
	case err != nil:
		return q, badPayload(e.Name, err)
	case !known:
		return q, unknownMethod(e.Name)
	}

	return q, nil
}

func badPayload(method string, err error) error {
	return structs.Invalidf("the payload of %s: %w", method, err)
}

// drainConn reads for a while and drops the bytes: a caller that is still writing would not read the answer.
func (s *Server) drainConn(conn net.Conn) {
	_ = conn.SetReadDeadline(time.Now().Add(rejectTime))
	_, _ = io.CopyN(io.Discard, conn, 16*s.limits.Message)
}

// rejectStream rejects the first request of a stream beyond the limit.
func (s *Server) rejectStream(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(rejectTime))
	in := newMessages(conn, s.limits.Message)
	in.budget = s.bytes
	defer in.free()
	q, _ := s.receive(in) // for any request
	if q.Endpoint == nil || in.lost {
		return
	}
	err := s.reject(q.Name, "connection")
	s.send(newWriter(conn), q.Name, s.message(q.Endpoint, q.seq, nil, err))
}

// rejectTime is the longest that the server reads a stream that it rejects.
const rejectTime = 10 * time.Second

func unknownMethod(name string) error {
	return structs.Invalidf("there is no method %q", name)
}

// serve runs a handler. A panic in it becomes an error.
func (s *Server) serve(
	ctx context.Context, e *Endpoint, handle Handler, req any,
) (answer any, err error) {
	defer s.recoverPanic(e, &err)
	return handle(ctx, req)
}

// recoverPanic turns a panic into an error. Use it directly in a defer statement.
func (s *Server) recoverPanic(e *Endpoint, err *error) {
	if p := recover(); p != nil {
		s.logger.Error("method panicked", "method", e.Name,
			"panic", p, "stack", string(debug.Stack()))
		*err = structs.Internalf("%s panicked: %v", e.Name, p)
	}
}

// send writes an answer.
func (s *Server) send(out *writer, method string, answer *buffer) {
	if err := out.write(answer); err != nil {
		s.logger.Debug("failed to send an answer",
			"method", method, "error", err)
	}
}

// message returns the message of an answer, or of the error in its place.
func (s *Server) message(e *Endpoint, seq uint64, answer any, err error) *buffer {
	head := responseHeader{method: e.Name, seq: seq}
	m := buffers.Get().(*buffer)
	m.b = head.append(m.b)
	if err == nil {
		err = s.appendResponse(m, e, answer)
	}
	if err != nil {
		head.failure = structs.ErrorToWire(err)
		m.next.release()
		m.next = nil
		m.b = head.append(m.b[:0])
		m.b = msgp.AppendMapHeader(m.b, 0)
	}
	return m
}

// appendResponse appends an answer to a message.
func (s *Server) appendResponse(m *buffer, e *Endpoint, answer any) (err error) {
	defer s.recoverPanic(e, &err)
	limit := s.limits.Response
	if a, ok := answer.(Appender); ok {
		return a.AppendResponse(&Response{last: m, limit: limit})
	}
	m.b, err = codec.Append(m.b, answer)
	if err != nil {
		return err
	}
	return responseFits(int64(len(m.b)), limit)
}

func (s *Server) logReadError(conn net.Conn, err error) {
	if s.ctx.Err() != nil ||
		errors.Is(err, io.EOF) ||
		errors.Is(err, net.ErrClosed) {
		return
	}
	s.logger.Debug("connection ended",
		"remote", fmt.Sprint(conn.RemoteAddr()),
		"error", err)
}
