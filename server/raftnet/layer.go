package raftnet

import (
	"net"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"berth/internal/peertls"
	"berth/internal/pki"
	"berth/rpc"
)

// Layer is Raft's share of the port: the listener hands it the connections whose first byte is
// Raft's, and it dials others with that byte.
type Layer struct {
	addr   net.Addr
	dial   rpc.Dialer
	logger hclog.Logger
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once

	rejected peertls.Rejections
}

// NewLayer makes the share of Raft in the port at an address. It dials other servers with dial.
func NewLayer(addr net.Addr, dial rpc.Dialer, logger hclog.Logger) *Layer {
	return &Layer{
		addr:   addr,
		dial:   dial,
		logger: logger,
		conns:  make(chan net.Conn),
		closed: make(chan struct{}),
	}
}

// Handoff gives a connection to Raft, which owns it from then on. With TLS the other end is a server.
func (l *Layer) Handoff(conn net.Conn) {
	peer, secured := rpc.PeerOf(conn)
	if secured && peer.Role != pki.RoleServer {
		if remote := conn.RemoteAddr(); l.rejected.Due(remote) {
			l.logger.Warn("rejected a connection of Raft, whose certificate is not that of a server",
				"remote", remote.String(), "identity", peer.String())
		}
		_ = conn.Close()
		return
	}

	select {
	case l.conns <- conn:
	case <-l.closed:
		_ = conn.Close()
	}
}

// Accept waits for the next connection from another server.
func (l *Layer) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept. The port itself is the listener's.
func (l *Layer) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr returns the advertised address.
func (l *Layer) Addr() net.Addr {
	return l.addr
}

// Dial opens a connection to another server's Raft.
func (l *Layer) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	conn, err := l.dial(string(address), timeout)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Write([]byte{rpc.ByteRaft}); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}
