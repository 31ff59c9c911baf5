package endpointstest

import (
	"context"
	"net"
	stdrpc "net/rpc"
	"sync"
	"testing"

	"github.com/hashicorp/go-hclog"
	msgpackrpc "github.com/hashicorp/net-rpc-msgpackrpc/v2"

	"berth/rpc"
	"berth/structs"
)

// Listen serves a server over loopback.
func Listen(t testing.TB, s *rpc.Server) (addr string) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		rpc.NewListener(ln, hclog.NewNullLogger(), map[byte]func(net.Conn){rpc.ByteMux: s.ServeMux}).Run(ctx)
	})
	t.Cleanup(func() {
		cancel()
		s.Close()
		wg.Wait()
	})
	return ln.Addr().String()
}

// NewPool returns connections to servers, which end with the test.
func NewPool(t testing.TB) *rpc.Pool {
	pool := rpc.NewPool(rpc.Dial, hclog.NewNullLogger(), nil)
	t.Cleanup(pool.Close)
	return pool
}

// RemoteCaller returns a caller of a server over a connection of either kind.
func RemoteCaller(t *testing.T, s *rpc.Server, first byte) rpc.Caller {
	t.Helper()
	if first == rpc.ByteMux {
		return NewPool(t).At(Listen(t, s))
	}
	near, far := net.Pipe()
	var serving sync.WaitGroup
	serving.Go(func() { s.ServeConn(far) })
	client := stockClient{stdrpc.NewClientWithCodec(msgpackrpc.NewCodec(true, true, near))}
	t.Cleanup(func() {
		_ = near.Close() // which ends the client
		serving.Wait()
	})
	return client
}

// stockClient is a caller over a plain connection.
type stockClient struct{ *stdrpc.Client }

// Call implements rpc.Caller.
func (c stockClient) Call(_ context.Context, method string, req, resp any) error {
	err := c.Client.Call(method, req, resp)
	if err == nil {
		return nil
	}
	return structs.ErrorFromWire(err.Error())
}

// WantSocket fails the test unless an error says that the socket of a server takes the request.
func WantSocket(t *testing.T, err error, socket string) {
	t.Helper()
	if !structs.IsKind(err, structs.KindDenied) || structs.SocketOf(err) != socket {
		t.Errorf("got %v (%s) with the socket %q, want %q", err, structs.KindOf(err), structs.SocketOf(err), socket)
	}
}
