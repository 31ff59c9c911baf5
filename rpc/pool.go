package rpc

import (
	"context"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/yamux"

	"berth/internal/netfault"
	"berth/internal/peertls"
	"berth/structs"
)

// dialTimeout bounds a TCP connect, so that one dead server does not take all the time of a call.
const dialTimeout = 5 * time.Second

// Pool keeps one session per remote address. It dials when an address is first needed, and again after the
// session broke.
type Pool struct {
	logger  hclog.Logger
	serve   *Server // serves calls of the other ends over the sessions; may be nil
	connect Dialer

	mu       sync.Mutex
	sessions map[string]*dial
	retired  map[*dial]struct{} // sessions that get no more calls, until they end
	closed   bool
	wg       sync.WaitGroup
}

// dial is a session, or the attempt to open one: all calls to an address wait for one attempt.
type dial struct {
	done    chan struct{}
	session *Session
	conn    net.Conn // of the session
	err     error
}

// Dialer opens a TCP connection to host:port.
type Dialer func(addr string, timeout time.Duration) (net.Conn, error)

// Dial is the Dialer of the real network.
func Dial(addr string, timeout time.Duration) (net.Conn, error) {
	return net.DialTimeout("tcp", addr, timeout)
}

// NewPool returns a pool. serve, if not nil, serves calls of the other ends over the sessions of the pool.
func NewPool(connect Dialer, logger hclog.Logger, serve *Server) *Pool {
	return &Pool{
		connect:  connect,
		logger:   logger,
		serve:    serve,
		sessions: map[string]*dial{},
		retired:  map[*dial]struct{}{},
	}
}

// Call calls a method at an address (host:port).
func (p *Pool) Call(ctx context.Context, addr, method string, req, resp any) error {
	s, err := p.Session(ctx, addr)
	if err != nil {
		return err
	}
	return s.Call(ctx, method, req, resp)
}

// At binds the pool to one address.
func (p *Pool) At(addr string) Caller {
	return bound{p, addr}
}

type bound struct {
	pool *Pool
	addr string
}

func (b bound) Call(ctx context.Context, method string, req, resp any) error {
	return b.pool.Call(ctx, b.addr, method, req, resp)
}

// Session returns the live session to an address, and dials if there is none. An error is unavailable:
// nothing was sent.
func (p *Pool) Session(ctx context.Context, addr string) (*Session, error) {
	d, err := p.dialOnce(addr)
	if err != nil {
		return nil, err
	}
	select {
	case <-d.done:
		return d.session, d.err
	case <-ctx.Done():
		return nil, structs.Unavailablef("connecting to %s: %w",
			addr, transportFault{netfault.Plain(ctx.Err())})
	}
}

// Open returns the session to an address, nil if there is none now. It does not dial.
func (p *Pool) Open(addr string) *Session {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := p.sessions[addr]
	if d == nil {
		return nil
	}

	select {
	case <-d.done:
		if d.broken() {
			return nil
		}
		return d.session
	default:
		return nil
	}
}

// dialOnce returns the session with an address, or begins one for all callers that ask meanwhile.
func (p *Pool) dialOnce(addr string) (*dial, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, structs.Unavailablef("connecting to %s: shutting down", addr)
	}
	d, known := p.sessions[addr]
	retires := known && d.retires(time.Now())
	if known && !d.broken() && !retires {
		return d, nil
	}
	if retires {
		p.retire(d)
	}
	d = &dial{done: make(chan struct{})}
	p.sessions[addr] = d
	p.wg.Go(func() {
		p.dial(addr, d)
	})
	return d, nil
}

func (d *dial) broken() bool {
	select {
	case <-d.done:
		return d.err != nil || d.session.mux.IsClosed()
	default:
		return false
	}
}

// retires reports whether a session that is open needs a successor.
func (d *dial) retires(now time.Time) bool {
	select {
	case <-d.done:
		at := peertls.RetireAt(d.conn)
		return !at.IsZero() && !now.Before(at)
	default:
		return false
	}
}

// retire keeps a session for its calls in flight. It ends with its certificate, or with the pool.
func (p *Pool) retire(d *dial) {
	if d.session == nil {
		return
	}
	p.retired[d] = struct{}{}
	p.wg.Go(func() {
		<-d.session.Done()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.retired, d)
	})
}

// dial connects in the background, so that a caller whose context ends does not end it for the others. Close
// waits for it.
func (p *Pool) dial(addr string, d *dial) {
	defer close(d.done)
	conn, err := p.connect(addr, dialTimeout)
	if err == nil {
		d.conn = conn
		_, err = conn.Write([]byte{ByteMux})
		if err != nil {
			_ = conn.Close()
		}
	}
	if err != nil {
		d.err = structs.Unavailablef("connecting to %s: %w", addr,
			transportFault{netfault.Plain(err)})
		return
	}

	mux, err := yamux.Client(&frames{Conn: conn}, muxConfig(p.logger))
	if err != nil {
		panic("the yamux configuration is wrong: " + err.Error())
	}

	d.session = &Session{
		mux:     mux,
		answers: structs.MaxRPCAnswer,
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		d.session.Close()
		return
	}

	if p.serve != nil {
		p.wg.Go(func() {
			p.serve.serveSession(p.serve.contextOf(conn), d.session)
		})
	}
}

// Drop closes the session to an address, if there is one: the next call dials again. Drop does not wait: a
// session that is being dialled is closed afterwards.
func (p *Pool) Drop(addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := p.sessions[addr]
	if d == nil || p.closed {
		return
	}
	delete(p.sessions, addr)
	p.wg.Go(d.close)
}

// close closes the session when it has been dialled.
func (d *dial) close() {
	<-d.done
	if d.session != nil {
		d.session.Close()
	}
}

// Close ends all sessions and waits for the goroutines of the pool.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	sessions := slices.Collect(maps.Values(p.sessions))
	sessions = slices.AppendSeq(sessions, maps.Keys(p.retired))
	p.sessions = map[string]*dial{}
	p.mu.Unlock()
	for _, d := range sessions {
		d.close()
	}
	p.wg.Wait()
}
