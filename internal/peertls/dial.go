package peertls

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"berth/internal/netfault"
)

// Dialing is how an agent connects to another one.
type Dialing struct {
	// Connect opens a plain connection.
	Connect func(ctx context.Context) (net.Conn, error)
	// Prefix is sent before the handshake, so that the port knows the protocol. It may be empty.
	Prefix []byte
	// Answer makes Dial wait for a byte of the other end. It comes when the other end has verified the
	// certificate of this agent. Without it the handshake ends before that, and the next read has the
	// rejection.
	Answer bool
	TLS    Client
	// Plain allows a connection without TLS if the other end does not speak TLS.
	Plain bool
}

// Dial connects with TLS. The connection is a *tls.Conn, or a plain one if the other end does not speak TLS
// and Plain allows it. ctx bounds all of it.
func (d Dialing) Dial(ctx context.Context) (net.Conn, error) {
	conn, err := d.Connect(ctx)
	if err != nil {
		return nil, err
	}

	err = d.sendPrefix(conn)
	raw := NewConn(conn)
	secured := tls.Client(raw, d.TLS(raw))
	if err == nil {
		err = secured.HandshakeContext(ctx)
	}

	if err == nil && raw.dialed != nil {
		err = raw.dialed.hold(raw, secured.ConnectionState())
	}

	if err == nil && d.Answer {
		err = awaitAnswer(ctx, secured)
	}

	if err == nil {
		return secured, nil
	}

	_ = raw.Close()
	if d.Plain && speaksNoTLS(err) && ctx.Err() == nil {
		return d.Connect(ctx)
	}

	return nil, Explain(err)
}

// hold makes a connection end with the certificate of its other end.
func (d *dialed) hold(conn *Conn, s tls.ConnectionState) error {
	d.retireAt = retirement(time.Now(), d.own, s.PeerCertificates[0])
	return d.keys.hold(conn, s)
}

// awaitAnswer waits until the other end has accepted the connection.
func awaitAnswer(ctx context.Context, conn net.Conn) error {
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	_, err := io.ReadFull(conn, make([]byte, 1))
	return err
}

// The alerts on a certificate have the numbers 40 to 49, and 116 says that it is missing.
const (
	alertHandshake  = 40
	alertAccess     = 49
	alertNoIdentity = 116
)

// Explain says in plain words that the other end has ended the handshake. The error of a read has it, too:
// the other end verifies the certificate of this one last. It returns other errors as they are.
func Explain(err error) error {
	alert, ok := netfault.TLSAlert(err)
	switch {
	case !ok:
		return err
	case alert >= alertHandshake && alert <= alertAccess || alert == alertNoIdentity:
		return fmt.Errorf("the other agent rejected the certificate of this one, and its log says why: %w",
			err)
	}

	return fmt.Errorf("the other end ended the handshake of TLS: %w", err)
}

func (d Dialing) sendPrefix(conn net.Conn) error {
	if len(d.Prefix) == 0 {
		return nil
	}
	_, err := conn.Write(d.Prefix)
	return err
}

// speaksNoTLS reports whether a handshake failed because the other end has answered in another protocol, or
// has closed the connection without an answer. A certificate that is not valid is no such fault.
func speaksNoTLS(err error) bool {
	var head tls.RecordHeaderError
	return errors.As(err, &head) ||
		errors.Is(err, io.EOF) ||
		errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, syscall.EPIPE)
}
