// Package joining calls the servers for a machine that has no certificate. The token of the machine names the
// authority of the servers, so the machine knows them.
package joining

import (
	"context"
	"net"
	"time"

	"berth/internal/jointoken"
	"berth/internal/peertls"
	"berth/internal/pki"
	"berth/rpc"
	"berth/structs"
)

// maxAnswer is the most bytes of an answer.
const maxAnswer = 1 << 20

// Request is what a machine says of itself.
type Request struct {
	Token    string
	Key      *pki.Key
	ID       string // a node ID, or the name of a server
	NodeName string
	NodePool string
}

// Join gets the first certificate of a machine from the server at an address (host:port of RPC).
func Join(ctx context.Context, addr string, r Request) (*structs.JoinResponse, error) {
	token, err := jointoken.Parse(r.Token)
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

	conn, err := dial(ctx, addr, token)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }() // the answer is complete, or there is an error
	resp := new(structs.JoinResponse)
	err = rpc.CallOnce(ctx, conn, rpc.OneCall{
		Method:  structs.Join.Name,
		Answers: maxAnswer,
		Req: &structs.JoinRequest{
			Token:    structs.Secret(r.Token),
			CSR:      csr,
			NodeName: r.NodeName,
			NodePool: r.NodePool,
		},
		Resp: resp,
	})
	return resp, err
}

// dial connects to a server whose certificate is of the authority of a token.
func dial(ctx context.Context, addr string, token jointoken.Token) (net.Conn, error) {
	d := peertls.Dialing{
		Connect: func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", addr)
		},
		Prefix: []byte{rpc.ByteJoin},
		TLS:    peertls.JoinClient(token.Region, token.Authority),
	}
	conn, err := d.Dial(ctx)
	if err != nil {
		return nil, structs.Unavailablef("connecting to the server %s: %w", addr, err)
	}
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	return conn, nil
}
