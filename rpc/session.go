package rpc

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/yamux"

	"berth/internal/netfault"
	"berth/structs"
)

// maxIdleStreams is the most streams that a session keeps open for the next calls. To open a stream costs
// more than a small call.
const maxIdleStreams = 256

// Session is one connection over which both ends may call. Each call in flight has its own stream, so a slow
// call delays no other. Closing the stream cancels the call at the other end.
type Session struct {
	mux     *yamux.Session
	answers int64 // the most bytes of one answer of the other end

	mu   sync.Mutex
	idle []*stream
}

func muxConfig(logger hclog.Logger) *yamux.Config {
	c := yamux.DefaultConfig()
	c.KeepAliveInterval = 10 * time.Second
	c.LogOutput = nil
	c.Logger = logger.StandardLogger(&hclog.StandardLoggerOptions{
		ForceLevel: hclog.Debug,
	})
	return c
}

// Done is closed when the connection has ended.
func (s *Session) Done() <-chan struct{} {
	return s.mux.CloseChan()
}

// RemoteAddr returns the address of the other end.
func (s *Session) RemoteAddr() net.Addr {
	return s.mux.RemoteAddr()
}

// Close ends the connection and with it every call.
func (s *Session) Close() {
	_ = s.mux.Close()
}

// Call calls a method of the other end.
func (s *Session) Call(ctx context.Context, method string, req, resp any) error {
	if err := ctx.Err(); err != nil {
		return callError(ctx, method, err)
	}

	st, err := s.openStream()
	if err != nil {
		return structs.Unavailablef("calling %s at %s: %w", method, s.RemoteAddr(),
			transportFault{plainFault(err)})
	}

	// Close cancels the call for the handler at the other end. The deadline cancels it here at once, even if
	// the connection is stuck and Close has to wait.
	unhook := context.AfterFunc(ctx, func() {
		_ = st.conn.SetReadDeadline(time.Unix(1, 0))
		_ = st.conn.Close()
	})
	err = st.call(method, req, resp)
	whole := unhook()
	var remote *structs.Error
	answered := err == nil || errors.As(err, &remote)
	switch {
	case !whole:
	case answered && (err == nil || remote.Kind != structs.KindInvalid):
		s.releaseStream(st)
	default: // the other end may close the stream after an invalid payload
		_ = st.conn.Close()
	}

	if answered {
		return err
	}

	return callError(ctx, method, err)
}

// callError classifies an error of the transport: the outcome of the call is unknown.
func callError(ctx context.Context, method string, err error) error {
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return structs.Timeoutf("calling %s: %w",
		method, transportFault{plainFault(err)})
}

// transportFault marks an error of the connection: the other end has not answered.
type transportFault struct{ error }

// Unwrap returns the marked error.
func (t transportFault) Unwrap() error { return t.error }

// IsTransport reports whether an error is of the connection, and not an answer of the other end. If it is
// unavailable, nothing was sent; otherwise the outcome is unknown.
func IsTransport(err error) bool {
	var t transportFault
	return errors.As(err, &t)
}

// lostErrors are the errors of a lost connection.
var lostErrors = []error{
	io.EOF,
	yamux.ErrSessionShutdown,
	yamux.ErrStreamClosed,
	yamux.ErrConnectionReset,
	yamux.ErrRemoteGoAway,
	yamux.ErrKeepAliveTimeout,
	yamux.ErrConnectionWriteTimeout,
}

// plainFault returns an error of a session in plain words.
func plainFault(err error) error {
	for _, lost := range lostErrors {
		if errors.Is(err, lost) {
			return errLost
		}
	}
	return netfault.Plain(err)
}

var errLost = errors.New("the connection was lost before the answer came")

// openStream returns an idle stream, or a new one.
func (s *Session) openStream() (*stream, error) {
	s.mu.Lock()
	if n := len(s.idle); n > 0 {
		st := s.idle[n-1]
		s.idle = s.idle[:n-1]
		s.mu.Unlock()
		return st, nil
	}
	s.mu.Unlock()
	conn, err := s.mux.Open()
	if err != nil {
		return nil, err
	}
	return newStream(conn, s.answers), nil
}

// releaseStream keeps a stream for the next call, or closes it.
func (s *Session) releaseStream(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.idle) < maxIdleStreams {
		s.idle = append(s.idle, st)
		return
	}
	_ = st.conn.Close()
}

type sessionKey struct{}

// SessionFrom returns the session of the request of ctx, nil for a plain connection or a call from the same
// process.
func SessionFrom(ctx context.Context) *Session {
	s, _ := ctx.Value(sessionKey{}).(*Session)
	return s
}

// ServeMux serves calls of the other end over a new yamux session on conn until it ends.
func (s *Server) ServeMux(conn net.Conn) {
	mux, err := yamux.Server(&frames{Conn: conn}, muxConfig(s.logger))
	if err != nil {
		panic("the yamux configuration is wrong: " + err.Error())
	}
	session := &Session{
		mux:     mux,
		answers: structs.MaxRPCRequest,
	}
	s.serveSession(s.contextOf(conn), session)
}

// serveSession accepts streams of the other end until the session or the server ends. It rejects each stream
// beyond the limit. It closes a session with more than twice that number.
func (s *Server) serveSession(ctx context.Context, session *Session) {
	if !s.addConn() {
		session.Close()
		return
	}
	defer s.wg.Done()
	defer context.AfterFunc(s.ctx, session.Close)()
	defer session.Close()
	ctx = context.WithValue(ctx, sessionKey{}, session)
	of := s.newConnLoad()
	for {
		conn, err := session.mux.Accept()
		if err != nil {
			return
		}

		switch open := session.mux.NumStreams(); {
		case open > 2*s.limits.Streams:
			s.logger.Warn("too many streams, closing the session",
				"remote", session.RemoteAddr().String(),
				"streams", open)
			return

		case open > s.limits.Streams:
			s.wg.Go(func() {
				s.rejectStream(conn)
			})
		default:
			s.wg.Go(func() {
				s.serveStream(ctx, conn, of)
			})
		}
	}
}
