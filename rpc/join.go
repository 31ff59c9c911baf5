package rpc

import (
	"context"
	"net"
	"time"

	"berth/internal/peertls"
	"berth/internal/pki"
	"berth/structs"
	"berth/structs/cluster"
)

const (
	maxJoinAnswer = 1 << 20          // bytes
	renewTimeout  = 20 * time.Second // of a renewal at one server, with an election meanwhile
)

// JoinRequest is what a machine says of itself.
type JoinRequest struct {
	Token    string
	Key      *pki.Key
	ID       string // a node ID, or the name of a server
	NodeName string
	NodePool string
}

// Join gets the first certificate of a machine from the server at an address (host:port of RPC). The token of
// the machine names the authority of the servers, so the machine knows them.
func Join(ctx context.Context, addr string, r JoinRequest) (*cluster.JoinResponse, error) {
	// The region and the role of the certificate are the token's, and not a choice of the machine.
	token, err := pki.ParseJoinToken(r.Token)
	if err != nil {
		return nil, err
	}

	csr, err := r.Key.CSR(pki.Identity{
		Region: token.Region,
		Role:   token.Role,
		ID:     r.ID,
	})
	if err != nil {
		return nil, err
	}

	// The token names the authority of the servers. So it cannot be given to another machine that answers at
	// the address.
	conn, err := dialServer(ctx, addr, peertls.JoinClient(token.Region, token.Authority))
	if err != nil {
		return nil, err
	}

	return call(ctx, conn, cluster.Join, &cluster.JoinRequest{
		Token:    structs.Secret(r.Token),
		CSR:      csr,
		NodeName: r.NodeName,
		NodePool: r.NodePool,
	})
}

// RenewCertificate renews the certificate of a node that has ended, at the server at an address. client takes
// the certificates of servers alone (see peertls.Keys.Client). csr is of the key and the identity of the
// node.
func RenewCertificate(ctx context.Context, addr string, client peertls.Client, csr []byte) (
	*cluster.CertificateSignResponse, error,
) {
	ctx, cancel := context.WithTimeout(ctx, renewTimeout)
	defer cancel()
	conn, err := dialServer(ctx, addr, client)
	if err != nil {
		return nil, err
	}
	return call(ctx, conn, cluster.RenewLapsed, &cluster.RenewLapsedRequest{CSR: csr})
}

// call makes one call over a connection, and closes it.
func call[Req, Resp any](
	ctx context.Context, conn net.Conn, m structs.Method[Req, Resp], req *Req,
) (*Resp, error) {
	defer func() { _ = conn.Close() }() // the answer is complete, or there is an error
	resp := new(Resp)
	err := CallOnce(ctx, conn, OneCall{
		Method:  m.Name,
		Answers: maxJoinAnswer,
		Req:     req,
		Resp:    resp,
	})
	return resp, err
}

// dialServer connects to a server whose certificate client takes.
func dialServer(ctx context.Context, addr string, client peertls.Client) (net.Conn, error) {
	d := peertls.Dialing{
		Connect: func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", addr)
		},
		// The byte selects the port for machines without a certificate, where every other call is rejected.
		Prefix: []byte{ByteJoin},
		TLS:    client,
	}

	conn, err := d.Dial(ctx)
	if err != nil {
		return nil, structs.Unavailablef("connecting to the server %s: %w", addr, err)
	}

	// A server that answers the handshake and then hangs must not keep the machine for ever.
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	return conn, nil
}
