package rpc

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/internal/backoff"
	"berth/internal/loadshed"
	"berth/internal/peertls"
)

// The first byte of a connection selects its protocol.
const (
	ByteRPC  byte = 0x01 // plain net/rpc in msgpack
	ByteRaft byte = 0x02 // Raft's own protocol
	ByteMux  byte = 0x03 // yamux; each stream is plain net/rpc in msgpack
	ByteTLS  byte = 0x04 // TLS; the server answers with it, and the next byte selects one of the others
	ByteJoin byte = 0x05 // TLS without a certificate of the caller; then plain net/rpc with one method
)

// firstByteTimeout is the longest that the first byte of a connection may take.
const firstByteTimeout = 10 * time.Second

// Listener serves one TCP port and hands each connection to the handler for its first byte. The handler owns
// the connection and may return before the connection ends; its owner waits for its work.
type Listener struct {
	ln       net.Listener
	logger   hclog.Logger
	handlers map[byte]func(net.Conn)
	conns    loadshed.Conns // whose first byte has not arrived, or whose handler has not returned
	tls      *tls.Config    // nil: the port does not speak TLS
	onlyTLS  bool
	joins    *tls.Config // nil: no machine can join here
	rejected peertls.Rejections
}

// DefaultConnsPerAddr is the most connections of one remote address, unless LimitPerAddr changes it: many
// nodes may share one address.
const DefaultConnsPerAddr = 4096

// NewListener returns a listener on a socket. It closes connections with a first byte that has no handler.
func NewListener(
	ln net.Listener, logger hclog.Logger, handlers map[byte]func(net.Conn),
) *Listener {
	l := &Listener{
		ln:       ln,
		logger:   logger,
		handlers: handlers,
	}
	l.LimitPerAddr(DefaultConnsPerAddr)
	return l
}

// LimitPerAddr changes the most connections of one remote address, before Run. A connection counts until its
// handler returns.
func (l *Listener) LimitPerAddr(n int) {
	l.conns.MostPerHost = n
}

// Secure makes the port speak TLS, before Run. If only is set, it rejects connections without TLS.
// Handlers get a connection with TLS as a *tls.Conn after its handshake.
func (l *Listener) Secure(config *tls.Config, only bool) {
	l.tls = config
	l.onlyTLS = only
}

// SecureJoins makes the port take machines without a certificate, before Run. The handler for ByteJoin
// gets their connections after the handshake.
func (l *Listener) SecureJoins(config *tls.Config) { l.joins = config }

// Run accepts connections until ctx ends, and returns when each handler has returned.
func (l *Listener) Run(ctx context.Context) {
	defer context.AfterFunc(ctx, func() { _ = l.ln.Close() })()
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		conn, err := l.ln.Accept()
		if err != nil {
			if ctx.Err() == nil &&
				!errors.Is(err, net.ErrClosed) {
				l.logger.Error("failed to accept connections",
					"addr", l.ln.Addr().String(),
					"error", err)
				// The error may be a lack of file descriptors, and others may be closed meanwhile.
				if backoff.Sleep(ctx, 100*time.Millisecond) {
					continue
				}
			}
			return
		}

		ofHost := l.conns.Add(conn)
		if ofHost > l.conns.MostPerHost {
			l.conns.Remove(conn)
			loadshed.CountRejected("address", 1)
			l.logger.Debug("too many connections of one address, closing the new one",
				"remote", conn.RemoteAddr().String(),
				"limit", l.conns.MostPerHost)
			_ = conn.Close()
			continue
		}

		wg.Go(func() {
			defer l.conns.Remove(conn)
			l.dispatch(ctx, conn)
		})
	}
}

func (l *Listener) dispatch(ctx context.Context, conn net.Conn) {
	raw := peertls.NewConn(conn)
	unhook := context.AfterFunc(ctx, func() { _ = raw.Close() })
	_ = raw.SetDeadline(time.Now().Add(firstByteTimeout))
	conn, first, err := l.open(ctx, raw)
	_ = raw.SetDeadline(time.Time{})
	unhook()
	handle, ok := l.handlers[first]
	if err != nil || !ok {
		l.logger.Debug("no handler for the first byte",
			"remote", raw.RemoteAddr().String(),
			"byte", first, "error", err)
		_ = raw.Close()
		return
	}
	handle(conn)
}

// open reads the byte that selects the protocol, with the handshake of TLS before it.
func (l *Listener) open(ctx context.Context, raw *peertls.Conn) (net.Conn, byte, error) {
	first, err := readByte(raw)
	if err == nil && first == ByteJoin {
		return l.openJoin(ctx, raw)
	}
	if err != nil || l.tls == nil {
		return raw, first, err
	}
	if first != ByteTLS {
		if l.onlyTLS {
			l.tellPlain(raw)
			return raw, first, errPlain
		}
		return raw, first, nil
	}

	secured := tls.Server(raw, l.tls)
	err = secured.HandshakeContext(ctx)
	if err != nil {
		l.tellHandshake(raw, err)
		return raw, first, err
	}
	_, err = secured.Write([]byte{ByteTLS}) // the caller waits for it: see peertls.Dialing
	if err == nil {
		first, err = readByte(secured)
	}
	return secured, first, err
}

// errNoJoins is the fault of a machine that joins at a port without TLS.
var errNoJoins = errors.New("no machine can join here: the port does not speak TLS")

// openJoin makes the handshake with a machine that has no certificate.
func (l *Listener) openJoin(ctx context.Context, raw net.Conn) (net.Conn, byte, error) {
	if l.joins == nil {
		return raw, ByteJoin, errNoJoins
	}
	secured := tls.Server(raw, l.joins)
	err := secured.HandshakeContext(ctx)
	return secured, ByteJoin, err
}

func readByte(conn net.Conn) (byte, error) {
	var b [1]byte
	_, err := io.ReadFull(conn, b[:])
	return b[0], err
}
