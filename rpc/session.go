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

// maxIdleStreams is how many streams a session keeps open for the next calls. Opening one costs more than a
// small call.
const maxIdleStreams = 256

// Session is one connection that both ends may call over. A call has a stream of its own while it runs,
// so a slow one holds up nobody, and closing the stream cancels the call at the other end.
type Session struct {
	mux     *yamux.Session
	answers int64 // bytes of one answer of the other end

	mu   sync.Mutex
	idle []*stream
}

func muxConfig(logger hclog.Logger) *yamux.Config {
	c := yamux.DefaultConfig()
	c.KeepAliveInterval = 10 * time.Second
	c.LogOutput = nil
	c.Logger = logger.StandardLogger(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug})
	return c
}

// Done is closed when the connection is gone.
func (s *Session) Done() <-chan struct{} { return s.mux.CloseChan() }

// RemoteAddr is the address of the other end.
func (s *Session) RemoteAddr() net.Addr { return s.mux.RemoteAddr() }

// Close ends the connection and with it every call.
func (s *Session) Close() { _ = s.mux.Close() }

// Call calls a method of the other end.
func (s *Session) Call(ctx context.Context, method string, req, resp any) error {
	if err := ctx.Err(); err != nil {
		return callError(ctx, method, err)
	}
	st, err := s.open()
	if err != nil {
		return structs.Errorf(structs.KindUnavailable, "calling %s at %s: %w", method, s.RemoteAddr(),
			transportFault{plainFault(err)})
	}
	// Closing the stream is what cancels the call for the handler at the other end; the deadline is what
	// cancels it here at once, where the wire is stuck and even closing has to wait.
	unhook := context.AfterFunc(ctx, func() {
		_ = st.conn.SetReadDeadline(time.Unix(1, 0))
		_ = st.conn.Close()
	})
	err = st.call(method, req, resp)
	whole := unhook()
	var remote *structs.Error
	// After an invalid payload the other end hangs up, since it may have lost its place in the stream.
	if whole && (err == nil || errors.As(err, &remote) && remote.Kind != structs.KindInvalid) {
		s.release(st)
		return err
	}
	if whole {
		_ = st.conn.Close()
	}
	if err == nil || errors.As(err, &remote) {
		return err
	}
	return callError(ctx, method, err)
}

// callError classifies an error of the transport: what was asked may or may not have been done.
func callError(ctx context.Context, method string, err error) error {
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return structs.Errorf(structs.KindTimeout, "calling %s: %w", method, transportFault{plainFault(err)})
}

// transportFault marks an error of the way to the other end, which has not answered.
type transportFault struct{ error }

// Unwrap returns the error that is marked.
func (t transportFault) Unwrap() error { return t.error }

// IsTransport reports whether an error is of the way to the other end and not the other end's answer. Nothing
// was sent if it is unavailable, and the outcome is unknown otherwise.
func IsTransport(err error) bool {
	var t transportFault
	return errors.As(err, &t)
}

// plainFault says in plain words why a session failed.
func plainFault(err error) error {
	for _, gone := range []error{io.EOF, yamux.ErrSessionShutdown, yamux.ErrStreamClosed, yamux.ErrConnectionReset, yamux.ErrRemoteGoAway, yamux.ErrKeepAliveTimeout, yamux.ErrConnectionWriteTimeout} {
		if errors.Is(err, gone) {
			return errLost
		}
	}
	return netfault.Plain(err)
}

var errLost = errors.New("the connection was lost before the answer came")

func (s *Session) open() (*stream, error) {
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

func (s *Session) release(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.idle) < maxIdleStreams {
		s.idle = append(s.idle, st)
		return
	}
	_ = st.conn.Close()
}

type sessionKey struct{}

// SessionFrom is the session over which the request of ctx came, nil for a plain connection or a call
// from the same process.
func SessionFrom(ctx context.Context) *Session {
	s, _ := ctx.Value(sessionKey{}).(*Session)
	return s
}

// ServeMux serves the other end's calls over a new yamux session on conn until it ends.
func (s *Server) ServeMux(conn net.Conn) {
	mux, err := yamux.Server(newFrames(conn), muxConfig(s.logger))
	if err != nil {
		panic("the yamux configuration is wrong: " + err.Error())
	}
	s.serveSession(&Session{mux: mux, answers: structs.MaxRPCRequest})
}

// serveSession accepts the other end's streams until the session or the server ends. Streams beyond the
// limit are turned away one by one; somebody who opens twice as many all the same is cut off.
func (s *Server) serveSession(session *Session) {
	if !s.hold() {
		session.Close()
		return
	}
	defer s.wg.Done()
	unhook := context.AfterFunc(s.ctx, session.Close)
	defer unhook()
	defer session.Close()
	ctx := context.WithValue(s.ctx, sessionKey{}, session)
	of := s.newConnLoad()
	for {
		conn, err := session.mux.Accept()
		if err != nil {
			return
		}
		switch open := session.mux.NumStreams(); {
		case open > 2*s.limits.Streams:
			s.logger.Warn("a session opens streams without end, closing it", "remote", session.RemoteAddr().String(), "streams", open)
			return
		case open > s.limits.Streams:
			s.wg.Go(func() { s.turnAway(conn) })
		default:
			s.wg.Go(func() { s.serveStream(ctx, conn, of) })
		}
	}
}
