package rpc

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

// The first byte of a connection selects its protocol.
const (
	ByteRPC  byte = 0x01 // plain net/rpc in msgpack
	ByteRaft byte = 0x02 // Raft's own protocol
	ByteMux  byte = 0x03 // yamux; each stream is plain net/rpc in msgpack
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
	unhook := context.AfterFunc(ctx, func() { _ = conn.Close() })
	var first [1]byte
	_ = conn.SetReadDeadline(time.Now().Add(firstByteTimeout))
	_, err := io.ReadFull(conn, first[:])
	_ = conn.SetReadDeadline(time.Time{})
	unhook()
	handle, ok := l.handlers[first[0]]
	if err != nil || !ok {
		l.logger.Debug("no handler for the first byte",
			"remote", conn.RemoteAddr().String(),
			"byte", first[0], "error", err)
		_ = conn.Close()
		return
	}
	handle(conn)
}
