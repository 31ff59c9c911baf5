package rpc

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"

	"berth/internal/netfault"
	"berth/internal/peertls"
	"berth/internal/pki"
)

// peerKey is the key of the identity of the other end in a context.
type peerKey struct{}

// PeerFrom returns the identity in the certificate of the caller of a request. It returns false for a
// call from the same process and for a connection without TLS.
func PeerFrom(ctx context.Context) (pki.Identity, bool) {
	id, ok := ctx.Value(peerKey{}).(pki.Identity)
	return id, ok
}

// WithPeer returns the context of the requests of a caller with a certificate.
func WithPeer(ctx context.Context, id pki.Identity) context.Context {
	return context.WithValue(ctx, peerKey{}, id)
}

// plainKey marks the context of requests that come from outside without a certificate.
type plainKey struct{}

// FromOutside reports whether a request came over a connection without a certificate. It returns false for a
// call from the same process.
func FromOutside(ctx context.Context) bool { return ctx.Value(plainKey{}) != nil }

// WithoutPeer returns the context of the requests that come from outside without a certificate.
func WithoutPeer(ctx context.Context) context.Context {
	return context.WithValue(ctx, plainKey{}, true)
}

// Inside returns the context of a call that this process makes itself, for a caller that it has checked.
func Inside(ctx context.Context) context.Context {
	return context.WithValue(context.WithValue(ctx, plainKey{}, nil), peerKey{}, nil)
}

// PeerOf returns the identity of the other end of a connection that a Listener has handed over. It returns
// false for a connection without TLS.
func PeerOf(conn net.Conn) (pki.Identity, bool) {
	secured, ok := conn.(*tls.Conn)
	if !ok {
		return pki.Identity{}, false
	}
	return peertls.PeerOf(secured.ConnectionState())
}

// contextOf returns the context of the requests that come over a connection.
func (s *Server) contextOf(conn net.Conn) context.Context {
	id, ok := PeerOf(conn)
	if !ok {
		return WithoutPeer(s.ctx)
	}
	return WithPeer(s.ctx, id)
}

// SecureDialer returns a dialer that connects with TLS. If plain is set, it connects without TLS to an
// address that does not speak it.
func SecureDialer(connect Dialer, client peertls.Client, plain bool) Dialer {
	return func(addr string, timeout time.Duration) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		d := peertls.Dialing{
			Connect: func(ctx context.Context) (net.Conn, error) {
				end, _ := ctx.Deadline() // the second connection, without TLS, has what the first one left
				return connect(addr, time.Until(end))
			},
			Prefix: []byte{ByteTLS},
			Answer: true,
			TLS:    client,
			Plain:  plain,
		}
		return d.Dial(ctx)
	}
}

// errPlain is the fault of a connection without TLS to a port that requires it.
var errPlain = errors.New("the connection has no TLS")

func (l *Listener) tellPlain(conn net.Conn) {
	if l.rejected.Due(conn.RemoteAddr()) {
		l.logger.Warn("rejected a connection without TLS; its agent needs tls { mode = \"prefer\" } or "+
			"\"require\". More rejections of its host in this minute are not logged",
			"remote", conn.RemoteAddr().String())
	}
}

func (l *Listener) tellHandshake(conn net.Conn, err error) {
	if l.rejected.Due(conn.RemoteAddr()) {
		l.logger.Warn("rejected a connection with TLS. More rejections of its host in this minute are not logged",
			"remote", conn.RemoteAddr().String(), "error", netfault.Plain(err))
	}
}
