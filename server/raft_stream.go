package server

import (
	"net"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/hashicorp/raft"

	"berth/rpc"
)

// Network is the way from this server to the others. A nil one in Config is the real network; tests put
// one there that they can cut.
type Network interface {
	// Dial opens a TCP connection to host:port.
	Dial(addr string, timeout time.Duration) (net.Conn, error)
	// Gossip returns the transport by which the gossip sends. It receives by the sockets of t.
	Gossip(t *memberlist.NetTransport) memberlist.NodeAwareTransport
}

// directNetwork is the real network.
type directNetwork struct{}

// Dial opens a TCP connection.
func (directNetwork) Dial(addr string, timeout time.Duration) (net.Conn, error) {
	return rpc.Dial(addr, timeout)
}

// Gossip returns t.
func (directNetwork) Gossip(t *memberlist.NetTransport) memberlist.NodeAwareTransport { return t }

// raftLayer is Raft's share of the port: the listener hands it the connections whose first byte is
// Raft's, and it dials others with that byte.
type raftLayer struct {
	addr   net.Addr
	net    Network
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newRaftLayer(addr net.Addr, network Network) *raftLayer {
	return &raftLayer{addr: addr, net: network, conns: make(chan net.Conn), closed: make(chan struct{})}
}

// handoff gives a connection to Raft, which owns it from then on.
func (l *raftLayer) handoff(conn net.Conn) {
	select {
	case l.conns <- conn:
	case <-l.closed:
		_ = conn.Close()
	}
}

// Accept waits for the next connection from another server.
func (l *raftLayer) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept. The port itself is the listener's.
func (l *raftLayer) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr is the advertised address.
func (l *raftLayer) Addr() net.Addr { return l.addr }

// Dial opens a connection to another server's Raft.
func (l *raftLayer) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	conn, err := l.net.Dial(string(address), timeout)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Write([]byte{rpc.ByteRaft}); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}
