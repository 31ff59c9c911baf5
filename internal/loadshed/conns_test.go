package loadshed

import (
	"context"
	"net"
	"net/http"
	"testing"
)

// remote is a connection from an address that notes whether it was closed.
type remote struct {
	net.Conn
	addr   net.Addr
	closed bool
}

func (r *remote) RemoteAddr() net.Addr { return r.addr }
func (r *remote) Close() error         { r.closed = true; return nil }

func from(ip string, port int) *remote {
	return &remote{addr: &net.TCPAddr{IP: net.ParseIP(ip), Port: port}}
}

func TestConns_CountsByHost(t *testing.T) {
	var c Conns
	one, two, other := from("10.0.0.1", 1), from("10.0.0.1", 2), from("::1", 1)
	unix := &remote{addr: &net.UnixAddr{Name: "sock"}}
	for n, add := range []struct {
		conn   net.Conn
		ofHost int
	}{{one, 1}, {two, 2}, {other, 1}, {unix, 1}} {
		if all, ofHost := c.Add(add.conn); all != n+1 || ofHost != add.ofHost {
			t.Errorf("%d: %d in all, %d of its host", n, all, ofHost)
		}
	}
	for _, conn := range []net.Conn{one, two, other, unix} {
		c.Remove(conn)
	}
	if c.all != 0 || len(c.from) > 0 {
		t.Errorf("%d are counted: %v", c.all, c.from)
	}
}

func TestHTTPConns_OnlyCloseAtTwiceTheBound(t *testing.T) {
	c := &HTTPConns{Most: 2, MostPerHost: 10}
	for n := range 5 {
		conn := from("10.0.0.1", n)
		ctx := c.connContext(context.Background(), conn)
		beyond := ctx.Value(excess{}) != nil
		if beyond != (n >= 2) || conn.closed != (n >= 4) {
			t.Errorf("connection %d: beyond the bound %v, closed %v", n, beyond, conn.closed)
		}
		defer c.connState(conn, http.StateClosed)
	}
}
