package api

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"time"

	"berth/internal/netfault"
	"berth/internal/peertls"
	"berth/internal/pki"
)

// This file connects an agent to the HTTP port of the agent of another node.

// connectTimeout bounds the connect to another agent, whose machine may be off.
const connectTimeout = 5 * time.Second

// HeaderPassedOn marks a request that another agent has forwarded. It is not forwarded again.
const HeaderPassedOn = "X-Berth-Passed-On"

// isFromServer reports whether a server has forwarded the request: its certificate, which the port has
// verified, proves it.
func isFromServer(r *http.Request) bool {
	if r.Header.Get(HeaderPassedOn) == "" || r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return false
	}
	id, err := pki.IdentityOf(r.TLS.PeerCertificates[0])
	return err == nil && id.Role == pki.RoleServer
}

// NodeConnect opens a connection to the HTTP port of the agent of a node. With TLS it is a *tls.Conn.
type NodeConnect func(ctx context.Context, address, nodeID string) (net.Conn, error)

// connectPlain connects without TLS.
func connectPlain(ctx context.Context, address, _ string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", address)
}

// NodeTransport returns a transport to the agent of a node, for one request. The scheme of its URLs is http,
// also with TLS. An error of the connect and of its handshake is a *net.OpError of "dial": nothing of the
// request was sent.
func NodeTransport(connect NodeConnect, nodeID string) *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, connectTimeout)
			defer cancel()
			conn, err := connect(ctx, address, nodeID)
			if err != nil {
				return nil, dialFault(err)
			}
			if _, secured := conn.(*tls.Conn); secured {
				return &securedConn{Conn: conn}, nil
			}
			return &plainConn{Conn: conn}, nil
		},
		ResponseHeaderTimeout: 30 * time.Second,
		DisableKeepAlives:     true, // such requests are rare, and the handler has no Close
	}
}

func dialFault(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return err
	}
	return &net.OpError{
		Op:  "dial",
		Net: "tcp",
		Err: err,
	}
}

// securedConn is a connection with TLS. The agent verifies the certificate of this end last, so its rejection
// comes with the first read. Nothing of the request had an effect. One goroutine reads it.
type securedConn struct {
	net.Conn
	answered bool
}

// Read reads from the connection.
func (s *securedConn) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	if _, rejected := netfault.TLSAlert(err); rejected && !s.answered {
		return n, dialFault(peertls.Explain(err))
	}
	s.answered = s.answered || n > 0
	return n, err
}

// tlsAlert is the first byte with which TLS rejects a request in plain text.
const tlsAlert = 0x15

// plainConn is a connection whose first answer is not one of TLS. One goroutine reads it.
type plainConn struct {
	net.Conn
	answered bool
}

// Read reads from the connection.
func (p *plainConn) Read(b []byte) (int, error) {
	n, err := p.Conn.Read(b)
	if n > 0 && !p.answered {
		p.answered = true
		if b[0] == tlsAlert {
			return 0, errNoAgent
		}
	}
	return n, err
}

// errNoAgent is the fault of a request that something else than an agent without TLS has rejected: it has
// had no effect.
var errNoAgent = errors.New("the server at this address is no agent, and may expect TLS " +
	"(compare the tls blocks of both agents)")
