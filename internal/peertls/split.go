package peertls

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/internal/backoff"
	"berth/internal/loadshed"
)

// handshakeByte is the first byte of a connection with TLS.
const handshakeByte = 0x16

// SplitConfig has the settings of a Splitter.
type SplitConfig struct {
	// AllowPlain reports whether a connection from an address may do without TLS.
	AllowPlain func(net.Addr) bool
	// FirstByte bounds the time in which the first byte of a connection arrives.
	FirstByte time.Duration
	// MostPerHost bounds the connections of one host whose first byte has not arrived.
	MostPerHost int
	Logger      hclog.Logger
}

// Splitter hands the connections of one port with TLS to one listener, and those without to another. A
// connection without TLS that may not do without goes to the first, which rejects it in its own words.
type Splitter struct {
	cfg    SplitConfig
	ln     net.Listener
	conns  loadshed.Conns // whose first byte has not arrived
	plain  *half
	secure *half
}

// NewSplitter returns a splitter of a port. Run runs it, and closes the port.
func NewSplitter(ln net.Listener, cfg SplitConfig) *Splitter {
	s := &Splitter{
		cfg:    cfg,
		ln:     ln,
		plain:  newHalf(ln.Addr()),
		secure: newHalf(ln.Addr()),
	}
	s.conns.MostPerHost = cfg.MostPerHost
	return s
}

// Plain returns the listener of connections without TLS.
func (s *Splitter) Plain() net.Listener { return s.plain }

// Secure returns the listener of connections with TLS. The handshake has not begun.
func (s *Splitter) Secure() net.Listener { return s.secure }

// Run accepts connections until ctx ends or the port fails, and returns when no connection is left whose
// first byte has not arrived. Both listeners end with it.
func (s *Splitter) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer s.plain.Close()
	defer s.secure.Close()
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = s.ln.Close() })()
	for {
		conn, err := s.ln.Accept()
		if ctx.Err() != nil {
			closeIf(conn)
			return nil
		}
		if errors.Is(err, net.ErrClosed) {
			return err
		}
		if err != nil {
			s.cfg.Logger.Error("failed to accept connections", "error", err)
			// The error may be a lack of file descriptors, and others may be closed meanwhile.
			backoff.Sleep(ctx, 100*time.Millisecond)
			continue
		}

		if s.conns.Add(conn) > s.cfg.MostPerHost {
			s.conns.Remove(conn)
			loadshed.CountRejected("address", 1)
			_ = conn.Close()
			continue
		}
		waiting.Go(func() {
			s.sort(ctx, conn)
		})
	}
}

func closeIf(conn net.Conn) {
	if conn != nil {
		_ = conn.Close()
	}
}

// sort reads the first byte of a connection and hands the connection over.
func (s *Splitter) sort(ctx context.Context, conn net.Conn) {
	unhook := context.AfterFunc(ctx, func() { _ = conn.Close() })
	var first [1]byte
	_ = conn.SetReadDeadline(time.Now().Add(s.cfg.FirstByte))
	_, err := io.ReadFull(conn, first[:])
	_ = conn.SetReadDeadline(time.Time{})
	unhook()
	s.conns.Remove(conn)
	if err != nil {
		_ = conn.Close()
		return
	}

	to := s.secure
	if first[0] != handshakeByte && s.cfg.AllowPlain(conn.RemoteAddr()) {
		to = s.plain
	}

	to.put(ctx, &peeked{Conn: conn, first: first[:]})
}

// peeked is a connection whose first byte has been read. One goroutine reads it.
type peeked struct {
	net.Conn
	first []byte
}

// Read implements net.Conn.
func (p *peeked) Read(b []byte) (int, error) {
	if len(p.first) == 0 || len(b) == 0 {
		return p.Conn.Read(b)
	}
	n := copy(b, p.first)
	p.first = p.first[n:]
	return n, nil
}

// half is one of the two listeners.
type half struct {
	addr   net.Addr
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newHalf(addr net.Addr) *half {
	return &half{
		addr:   addr,
		conns:  make(chan net.Conn),
		closed: make(chan struct{}),
	}
}

func (h *half) put(ctx context.Context, conn net.Conn) {
	select {
	case h.conns <- conn:
	case <-h.closed:
		_ = conn.Close()
	case <-ctx.Done():
		_ = conn.Close()
	}
}

// Accept implements net.Listener.
func (h *half) Accept() (net.Conn, error) {
	select {
	case conn := <-h.conns:
		return conn, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (h *half) Close() error {
	h.once.Do(func() { close(h.closed) })
	return nil
}

// Addr implements net.Listener.
func (h *half) Addr() net.Addr { return h.addr }
