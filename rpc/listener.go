package rpc

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/internal/loadshed"
)

// The first byte of a connection says what it is for.
const (
	ByteRPC  byte = 0x01 // plain net/rpc in msgpack
	ByteRaft byte = 0x02 // Raft's own protocol
	ByteMux  byte = 0x03 // yamux; each stream is plain net/rpc in msgpack
)

// firstByteTimeout is how long a connection may take to say what it is for.
const firstByteTimeout = 10 * time.Second

// Listener serves one TCP port and hands each connection, by its first byte, to the function for it. The
// function owns the connection and may return before it ends; whoever gave the function waits for its
// work.
type Listener struct {
	ln         net.Listener
	logger     hclog.Logger
	handlers   map[byte]func(net.Conn)
	maxPerAddr int

	conns loadshed.Conns // that have not said what they are for, or are being handled
}

// DefaultConnsPerAddr is how many connections one remote address may have, if nobody says otherwise: many
// nodes may come from behind one address.
const DefaultConnsPerAddr = 4096

// NewListener wraps a listening socket. Connections with a first byte that no handler is for are closed.
func NewListener(ln net.Listener, logger hclog.Logger, handlers map[byte]func(net.Conn)) *Listener {
	return &Listener{ln: ln, logger: logger, handlers: handlers, maxPerAddr: DefaultConnsPerAddr}
}

// LimitPerAddr changes how many connections one remote address may have, before Run. One counts until the
// function that it was handed to returns.
func (l *Listener) LimitPerAddr(n int) { l.maxPerAddr = n }

// Addr is the address that is listened on.
func (l *Listener) Addr() net.Addr { return l.ln.Addr() }

// Run accepts connections until ctx ends; it returns when every handler function has returned.
func (l *Listener) Run(ctx context.Context) {
	unhook := context.AfterFunc(ctx, func() { _ = l.ln.Close() })
	defer unhook()
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		conn, err := l.ln.Accept()
		if err != nil {
			if ctx.Err() == nil && !errors.Is(err, net.ErrClosed) {
				l.logger.Error("accepting connections failed", "addr", l.ln.Addr().String(), "error", err)
				select { // for instance out of file descriptors: others may be closed meanwhile
				case <-time.After(100 * time.Millisecond):
					continue
				case <-ctx.Done():
				}
			}
			return
		}
		if _, ofHost := l.conns.Add(conn); ofHost > l.maxPerAddr {
			l.conns.Remove(conn)
			loadshed.CountRefused("address", 1)
			l.logger.Debug("an address has too many connections", "remote", conn.RemoteAddr().String(),
				"limit", l.maxPerAddr)
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
	unhook := context.AfterFunc(ctx, func() { _ = conn.Close() })
	var first [1]byte
	_ = conn.SetReadDeadline(time.Now().Add(firstByteTimeout))
	_, err := io.ReadFull(conn, first[:])
	_ = conn.SetReadDeadline(time.Time{})
	unhook()
	handle, ok := l.handlers[first[0]]
	if err != nil || !ok {
		l.logger.Debug("a connection did not say what it is for", "remote", conn.RemoteAddr().String(), "byte", first[0], "error", err)
		_ = conn.Close()
		return
	}
	handle(conn)
}
