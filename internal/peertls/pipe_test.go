package peertls

import (
	"bytes"
	"net"
	"sync"
)

// pipeEnd is an end of a pipe whose writes return before the other end has read them, like those of a socket:
// both ends of a handshake write at the same time.
type pipeEnd struct {
	net.Conn
	writes chan []byte
	closed chan struct{}
	once   sync.Once
}

// pipe returns the two ends of a connection, whose address is that of all pipes.
func pipe() (near, far net.Conn) {
	a, b := net.Pipe()
	return newPipeEnd(a), newPipeEnd(b)
}

func newPipeEnd(conn net.Conn) *pipeEnd {
	p := &pipeEnd{
		Conn:   conn,
		writes: make(chan []byte, 64),
		closed: make(chan struct{}),
	}
	go p.run()
	return p
}

// run hands the written bytes over until the end is closed.
func (p *pipeEnd) run() {
	for {
		select {
		case b := <-p.writes:
			_, _ = p.Conn.Write(b) // fails once an end is closed
		case <-p.closed:
			return
		}
	}
}

// Write implements net.Conn.
func (p *pipeEnd) Write(b []byte) (int, error) {
	select {
	case p.writes <- bytes.Clone(b):
		return len(b), nil
	case <-p.closed:
		return 0, net.ErrClosed
	}
}

// Close implements net.Conn.
func (p *pipeEnd) Close() error {
	p.once.Do(func() { close(p.closed) })
	return p.Conn.Close()
}
