package rpc

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/yamux"

	"berth/internal/netfault"
	"berth/structs"
)

// dialTimeout bounds a TCP connect, so that one dead server does not eat a call's whole time.
const dialTimeout = 5 * time.Second

// Pool keeps one session per remote address, dialled when it is first needed and again after it broke.
type Pool struct {
	logger  hclog.Logger
	serve   *Server // serves the calls that the other ends make back; may be nil
	connect Dialer

	mu       sync.Mutex
	sessions map[string]*dial
	closed   bool
	wg       sync.WaitGroup
}

// dial is a session that is there or being dialled: those who want the same address wait for one dial.
type dial struct {
	done    chan struct{}
	session *Session
	err     error
}

// Dialer opens a TCP connection to host:port.
type Dialer func(addr string, timeout time.Duration) (net.Conn, error)

// NewPool makes a pool. serve, if not nil, answers what the other ends call back over the pool's sessions.
func NewPool(logger hclog.Logger, serve *Server) *Pool {
	return NewPoolOver(func(addr string, timeout time.Duration) (net.Conn, error) {
		return net.DialTimeout("tcp", addr, timeout)
	}, logger, serve)
}

// NewPoolOver makes a pool whose connections come from a dialer.
func NewPoolOver(connect Dialer, logger hclog.Logger, serve *Server) *Pool {
	return &Pool{connect: connect, logger: logger, serve: serve, sessions: map[string]*dial{}}
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
func (p *Pool) At(addr string) Caller { return bound{p, addr} }

type bound struct {
	pool *Pool
	addr string
}

func (b bound) Call(ctx context.Context, method string, req, resp any) error {
	return b.pool.Call(ctx, b.addr, method, req, resp)
}

// Session returns the live session to an address, dialling it if there is none. A failure is unavailable:
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
		return nil, structs.Errorf(structs.KindUnavailable, "connecting to %s: %w", addr, ctx.Err())
	}
}

func (p *Pool) dialOnce(addr string) (*dial, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, structs.Errorf(structs.KindUnavailable, "connecting to %s: shutting down", addr)
	}
	if d, ok := p.sessions[addr]; ok && !d.broken() {
		return d, nil
	}
	d := &dial{done: make(chan struct{})}
	p.sessions[addr] = d
	p.wg.Go(func() { p.dial(addr, d) })
	return d, nil
}

func (d *dial) broken() bool {
	select {
	case <-d.done:
	default:
		return false
	}
	if d.err != nil {
		return true
	}
	select {
	case <-d.session.Done():
		return true
	default:
		return false
	}
}

func (p *Pool) dial(addr string, d *dial) {
	defer close(d.done)
	conn, err := p.connect(addr, dialTimeout)
	if err == nil {
		if _, err = conn.Write([]byte{ByteMux}); err != nil {
			_ = conn.Close()
		}
	}
	if err != nil {
		d.err = structs.Errorf(structs.KindUnavailable, "connecting to %s: %w", addr, transportFault{netfault.Plain(err)})
		return
	}
	mux, err := yamux.Client(newFrames(conn), muxConfig(p.logger))
	if err != nil {
		panic("the yamux configuration is wrong: " + err.Error())
	}
	d.session = &Session{mux: mux, answers: structs.MaxRPCAnswer}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		d.session.Close()
		return
	}
	if p.serve != nil {
		p.wg.Go(func() { p.serve.serveSession(d.session) })
	}
}

// Drop closes the session to an address, if there is one: the next call dials anew. It waits for nothing: a
// session that is being dialled is closed when it is there.
func (p *Pool) Drop(addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := p.sessions[addr]
	if d == nil || p.closed {
		return
	}
	delete(p.sessions, addr)
	p.wg.Go(func() {
		<-d.done
		if d.session != nil {
			d.session.Close()
		}
	})
}

// Close ends every session and waits for the pool's goroutines.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	sessions := p.sessions
	p.sessions = map[string]*dial{}
	p.mu.Unlock()
	for _, d := range sessions {
		<-d.done
		if d.session != nil {
			d.session.Close()
		}
	}
	p.wg.Wait()
}
