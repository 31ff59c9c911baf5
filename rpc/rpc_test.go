package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	stdrpc "net/rpc"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	msgpackrpc "github.com/hashicorp/net-rpc-msgpackrpc/v2"
	"go.uber.org/goleak"

	"berth/internal/codec"
	"berth/structs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type echo struct{ Text string }

var (
	echoMethod  = structs.Method[echo, echo]{Name: "Test.Echo"}
	failMethod  = structs.Method[echo, echo]{Name: "Test.Fail"}
	panicMethod = structs.Method[echo, echo]{Name: "Test.Panic"}
	hangMethod  = structs.Method[echo, echo]{Name: "Test.Hang"}
	backMethod  = structs.Method[echo, echo]{Name: "Test.Back"}
)

// echoEndpoint returns its request.
func echoEndpoint() Endpoint {
	return Handle(echoMethod, func(_ context.Context, r *echo) (*echo, error) { return r, nil })
}

// servePipe serves one end of a pipe until the test ends, and returns both ends. It counts the writes of the
// server.
func servePipe(t testing.TB, s *Server) (near net.Conn, far *countingConn) {
	near, conn := net.Pipe()
	far = &countingConn{Conn: conn}
	var serving sync.WaitGroup
	serving.Go(func() { s.ServeConn(far) })
	t.Cleanup(func() {
		_ = near.Close()
		s.Close()
		serving.Wait()
	})
	return near, far
}

// listen serves on loopback until the test ends and returns the address. perAddr, if not 0, bounds the
// connections of an address.
func listen(t testing.TB, s *Server, perAddr int) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	handlers := map[byte]func(net.Conn){ByteRPC: s.ServeConn, ByteMux: s.ServeMux}
	l := NewListener(ln, hclog.NewNullLogger(), handlers)
	if perAddr > 0 {
		l.LimitPerAddr(perAddr)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { l.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		s.Close()
		wg.Wait()
	})
	return ln.Addr().String()
}

// startServer serves the test's methods on loopback. hung gets a value when a hanging handler begins and
// another when its context ended.
func startServer(t *testing.T) (addr string, hung chan string) {
	t.Helper()
	hung = make(chan string, 2)
	srv := NewServer(hclog.NewNullLogger(), echoEndpoint(),
		Handle(failMethod, func(context.Context, *echo) (*echo, error) {
			return nil, structs.Errorf(structs.KindConflict, "no: %s", "two writers")
		}),
		Handle(panicMethod, func(context.Context, *echo) (*echo, error) { panic("boom") }),
		Handle(hangMethod, func(ctx context.Context, _ *echo) (*echo, error) {
			hung <- "began"
			<-ctx.Done()
			hung <- "ended"
			return nil, ctx.Err()
		}),
		Handle(backMethod, func(ctx context.Context, r *echo) (*echo, error) {
			return Call(ctx, SessionFrom(ctx), echoMethod, &echo{"back " + r.Text})
		}),
	)
	return listen(t, srv, 0), hung
}

func newPool(t testing.TB, serve *Server) *Pool {
	p := NewPool(Dial, hclog.NewNullLogger(), serve)
	t.Cleanup(p.Close)
	return p
}

func TestPool_CarriesManyCallsAtOnce(t *testing.T) {
	addr, _ := startServer(t)
	c := newPool(t, nil).At(addr)
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			text := fmt.Sprint(i)
			got, err := Call(context.Background(), c, echoMethod, &echo{text})
			if err != nil || got.Text != text {
				t.Errorf("echo of %s: got %v, %v", text, got, err)
			}
		})
	}
	wg.Wait()
}

func TestCall_ErrorsKeepTheirKind(t *testing.T) {
	addr, _ := startServer(t)
	c := newPool(t, nil).At(addr)
	for _, tc := range []struct {
		method structs.Method[echo, echo]
		kind   structs.Kind
		text   string
	}{
		{failMethod, structs.KindConflict, "no: two writers"},
		{panicMethod, structs.KindInternal, "Test.Panic panicked: boom"},
		{structs.Method[echo, echo]{Name: "No.Such"}, structs.KindInvalid, `there is no method "No.Such"`},
	} {
		_, err := Call(context.Background(), c, tc.method, &echo{})
		if structs.KindOf(err) != tc.kind || err.Error() != tc.text {
			t.Errorf("%s: got %q of kind %s, want %q of kind %s", tc.method.Name, err, structs.KindOf(err),
				tc.text, tc.kind)
		}
	}
}

func TestCall_APayloadThatDoesNotDecodeIsInvalid(t *testing.T) {
	addr, _ := startServer(t)
	c := newPool(t, nil).At(addr)
	var out echo
	err := c.Call(context.Background(), echoMethod.Name, map[string]any{"Text": map[string]int{"a": 1}}, &out)
	if !structs.IsKind(err, structs.KindInvalid) {
		t.Fatalf("got %v, want invalid", err)
	}
	if _, err := Call(context.Background(), c, echoMethod, &echo{"still there"}); err != nil {
		t.Fatalf("the next call failed: %v", err)
	}
}

func TestCall_CancelsItsHandler(t *testing.T) {
	addr, hung := startServer(t)
	c := newPool(t, nil).At(addr)
	ctx, cancel := context.WithCancel(context.Background())
	failed := make(chan error, 1)
	go func() {
		_, err := Call(ctx, c, hangMethod, &echo{})
		failed <- err
	}()
	<-hung
	cancel()
	if err := <-failed; !structs.IsKind(err, structs.KindTimeout) {
		t.Errorf("got %v, want timeout: the outcome is unknown", err)
	}
	if got := <-hung; got != "ended" {
		t.Errorf("the handler %s, want that its context ended", got)
	}
}

func TestSession_CarriesCallsBothWays(t *testing.T) {
	addr, _ := startServer(t)
	mine := NewServer(hclog.NewNullLogger(), Handle(echoMethod, func(_ context.Context, r *echo) (*echo, error) {
		return &echo{"client: " + r.Text}, nil
	}))
	t.Cleanup(mine.Close)
	p := newPool(t, mine)
	got, err := Call(context.Background(), p.At(addr), backMethod, &echo{"hello"})
	if err != nil || got.Text != "client: back hello" {
		t.Fatalf("got %v, %v; want %q", got, err, "client: back hello")
	}
}

// A server whose leader changes while it connects to it gives the attempt up, and calls the next leader.
func TestPool_AnEndedAttemptToConnectHasSentNothing(t *testing.T) {
	dialed, end := make(chan struct{}), make(chan struct{})
	p := NewPool(func(string, time.Duration) (net.Conn, error) {
		close(dialed)
		<-end
		return nil, net.ErrClosed
	}, hclog.NewNullLogger(), nil)
	t.Cleanup(func() {
		close(end)
		p.Close()
	})
	ctx, giveUp := context.WithCancel(t.Context())
	go func() {
		<-dialed
		giveUp()
	}()
	_, err := Call(ctx, p.At("s1"), echoMethod, &echo{})
	if !structs.IsKind(err, structs.KindUnavailable) || !IsTransport(err) {
		t.Errorf("got %v (%s), want an error of the connection that is unavailable", err, structs.KindOf(err))
	}
	if want := "connecting to s1: the call was cancelled"; err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
}

func TestPool_NoListenerIsUnavailable(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	ln.Close()
	_, err = Call(context.Background(), newPool(t, nil).At(addr), echoMethod, &echo{})
	if !structs.IsKind(err, structs.KindUnavailable) {
		t.Fatalf("got %v, want unavailable", err)
	}
}

func TestServer_AStockClientCanCall(t *testing.T) {
	addr, _ := startServer(t)
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte{ByteRPC}); err != nil {
		t.Fatal(err)
	}
	c := msgpackrpc.NewCodecFromHandle(true, true, conn, codec.Handle)
	var got echo
	err = msgpackrpc.CallWithCodec(c, "Test.Echo", &echo{"stock"}, &got)
	if err != nil || got.Text != "stock" {
		t.Fatalf("got %v, %v; want %q", got, err, "stock")
	}
	err = msgpackrpc.CallWithCodec(c, "Test.Fail", &echo{}, &got)
	if err == nil || err.(stdrpc.ServerError) != "conflict: no: two writers" {
		t.Fatalf("got %v, want a conflict", err)
	}
}

func TestServer_ClosesConnectionsAfterClose(t *testing.T) {
	srv := NewServer(hclog.NewNullLogger())
	srv.Close()
	for name, serve := range map[string]func(net.Conn){"plain": srv.ServeConn, "mux": srv.ServeMux} {
		near, far := net.Pipe()
		serve(far)
		_ = near.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := near.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("%s: got %v, want EOF", name, err)
		}
	}
}
