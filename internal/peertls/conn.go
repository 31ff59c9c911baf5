package peertls

import (
	"crypto/x509"
	"net"
	"sync"
	"time"
)

// Conn is a connection below TLS. The keys hold it while it is open, so that it ends with the certificate of
// its other end.
type Conn struct {
	net.Conn

	mu      sync.Mutex
	closed  bool
	release func() // nil: no keys hold the connection

	dialed *dialed // of a connection that Keys.Client has configured; else nil
}

// dialed is what a connection that this agent has opened has to do with its certificates.
type dialed struct {
	keys     *Keys
	own      *x509.Certificate // also of a resumed session: see resume.go
	retireAt time.Time         // see RetireAt
}

// NewConn returns a connection for tls.Server with a configuration of Keys.Server.
func NewConn(conn net.Conn) *Conn { return &Conn{Conn: conn} }

// Close implements net.Conn.
func (c *Conn) Close() error {
	c.mu.Lock()
	release := c.release
	c.release = nil
	c.closed = true
	c.mu.Unlock()
	if release != nil {
		release()
	}

	return c.Conn.Close()
}

// onClose calls a function when the connection is closed. It returns false if it is closed already.
func (c *Conn) onClose(release func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.release = release
	return true
}

// retirePart is the part of the life of a certificate for which a connection of it is not used any more, and
// retireMost the most of it: calls that wait for a change last for minutes.
const (
	retirePart = 10
	retireMost = 15 * time.Minute
)

// RetireAt returns the time from which on the next calls need a new connection, so that none is lost when
// this one ends with a certificate of either end. It is past once this agent has a certificate of another
// authority: the former one may be removed. It returns zero for a connection that is not to be replaced: a
// new one would end at the same time, or it does not end with a certificate.
func RetireAt(conn net.Conn) time.Time {
	secured, ok := conn.(interface{ NetConn() net.Conn })
	if !ok {
		return time.Time{}
	}

	c, ok := secured.NetConn().(*Conn)
	if !ok || c.dialed == nil {
		return time.Time{}
	}

	if c.dialed.keys.replaced(c.dialed.own) {
		return time.Unix(0, 1)
	}

	return c.dialed.retireAt
}

// retirement returns the earliest time after now at which one of the certificates calls for a new connection.
func retirement(now time.Time, certs ...*x509.Certificate) (at time.Time) {
	for _, cert := range certs {
		life := cert.NotAfter.Sub(cert.NotBefore)
		due := cert.NotAfter.Add(-min(life/retirePart, retireMost))
		if due.After(now) && (at.IsZero() || due.Before(at)) {
			at = due
		}
	}
	return at
}

// listener hands out each connection as a *Conn.
type listener struct{ net.Listener }

// Listen returns a listener for tls.NewListener with a configuration of Keys.Server.
func Listen(ln net.Listener) net.Listener { return listener{ln} }

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return NewConn(conn), nil
}
