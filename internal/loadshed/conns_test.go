package loadshed

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
)

// remoteConn is a connection from an address that records whether it was closed.
type remoteConn struct {
	net.Conn
	addr   net.Addr
	closed bool
}

func (r *remoteConn) RemoteAddr() net.Addr { return r.addr }

func (r *remoteConn) Close() error {
	r.closed = true
	return nil
}

func connFrom(ip string, port int) *remoteConn {
	return &remoteConn{addr: &net.TCPAddr{IP: net.ParseIP(ip), Port: port}}
}

func TestConns_CountsByHost(t *testing.T) {
	c := Conns{MostPerHost: 2}
	one := connFrom("10.0.0.1", 1)
	two := connFrom("10.0.0.1", 2)
	other := connFrom("::1", 1)
	unix := &remoteConn{addr: &net.UnixAddr{Name: "sock"}}
	for n, add := range []struct {
		conn   net.Conn
		ofHost int
	}{{one, 1}, {two, 2}, {other, 1}, {unix, 1}} {
		if ofHost := c.Add(add.conn); ofHost != add.ofHost {
			t.Errorf("connection %d: got %d of its host; want %d", n, ofHost, add.ofHost)
		}
	}
	for _, conn := range []net.Conn{one, two, other, unix} {
		c.Remove(conn)
	}
	if len(c.from) > 0 {
		t.Errorf("connections are still counted: %v", c.from)
	}
}

// isBeyond reports whether a connection is beyond a bound, by the context of its requests.
func isBeyond(ctx context.Context) bool { return ctx.Value(connClassKey{}).(connClass).beyond }

func TestHTTPConns_OnlyClosesAtTwiceTheBound(t *testing.T) {
	c := &HTTPConns{Most: 2}
	c.MostPerHost = 10
	for n := range 5 {
		conn := connFrom("10.0.0.1", n)
		ctx := c.connContext(context.Background(), conn)
		beyond := isBeyond(ctx)
		if beyond != (n >= 2) || conn.closed != (n >= 4) {
			t.Errorf("connection %d of 2: beyond the bound %v, closed %v", n, beyond, conn.closed)
		}
		defer c.connState(conn, http.StateClosed)
	}
}

func TestHTTPConns_OneHostTakesNoPlacesOfOthers(t *testing.T) {
	c := &HTTPConns{Most: 4}
	c.MostPerHost = 2
	var excessive []*remoteConn
	for n := range 20 {
		conn := connFrom("10.0.0.1", n)
		excessive = append(excessive, conn)
		beyond := isBeyond(c.connContext(context.Background(), conn))
		if beyond != (n >= 2) || conn.closed != (n >= 4) {
			t.Errorf("connection %d of 2: beyond the bound %v, closed %v", n, beyond, conn.closed)
		}
	}
	for n, ip := range []string{"10.0.0.2", "10.0.0.3"} {
		conn := connFrom(ip, n)
		if isBeyond(c.connContext(context.Background(), conn)) || conn.closed {
			t.Errorf("a connection from %s is beyond the bound, want it served", ip)
		}
		c.connState(conn, http.StateClosed)
	}
	for _, conn := range excessive {
		c.connState(conn, http.StateClosed)
	}
	if c.uses.served != 0 || len(c.uses.beyond) > 0 || len(c.from) > 0 {
		t.Errorf("%d connections are still counted: %v", c.uses.served, c.from)
	}
}

func TestHTTPConns_DoesNotWaitForTheBodyOfARejectedRequest(t *testing.T) {
	reject := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }
	c := &HTTPConns{Most: 1, Excess: http.HandlerFunc(reject)}
	c.MostPerHost = 10
	srv := httptest.NewUnstartedServer(http.NotFoundHandler())
	c.Bound(srv.Config)
	srv.Start()
	defer srv.Close()
	var conn net.Conn
	for range c.Most + 1 {
		var err error
		conn, err = net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
	}
	request := "PUT / HTTP/1.1\r\nHost: berth\r\nContent-Length: 10\r\n\r\n"
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(10 * excessBody))
	answer, err := io.ReadAll(conn) // until the server closes
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 503 ") {
		t.Errorf("got answer %q, %v; want status 503", answer, err)
	}
}

func TestHTTPConns_ShutdownClosesConnectionsWithoutARequest(t *testing.T) {
	began := make(chan struct{})
	release := make(chan struct{})
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(began)
		<-release
	}))
	c := &HTTPConns{Most: 10}
	c.MostPerHost = 10
	c.Bound(srv.Config)
	srv.Start()
	defer srv.Close()
	unused, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unused.Close() }()
	answered := make(chan error, 1)
	go func() {
		resp, err := srv.Client().Get(srv.URL)
		if err == nil {
			err = resp.Body.Close()
		}
		answered <- err
	}()
	<-began // so the connection before this one is accepted, too

	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_ = srv.Config.Shutdown(ended) // only begins
	_ = unused.SetReadDeadline(time.Now().Add(time.Minute))
	_, err = unused.Read(make([]byte, 1))
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the unused connection: got %v, want it closed", err)
	}
	close(release)
	if err := <-answered; err != nil {
		t.Errorf("the request in flight: %v", err)
	}
}
