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

// start serves the test's methods on loopback. hung gets a value when a hanging handler begins and
// another when its context ended.
func start(t *testing.T) (addr string, hung chan string) {
	t.Helper()
	hung = make(chan string, 2)
	srv := NewServer(hclog.NewNullLogger(),
		Handle(echoMethod, func(_ context.Context, r *echo) (*echo, error) { return r, nil }),
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
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	l := NewListener(ln, hclog.NewNullLogger(), map[byte]func(net.Conn){ByteRPC: srv.ServeConn,
		ByteMux: srv.ServeMux})
	var wg sync.WaitGroup
	wg.Go(func() { l.Run(ctx) })
	t.Cleanup(func() { cancel(); srv.Close(); wg.Wait() })
	return ln.Addr().String(), hung
}

func newPool(t *testing.T, serve *Server) *Pool {
	p := NewPool(Dial, hclog.NewNullLogger(), serve)
	t.Cleanup(p.Close)
	return p
}

func TestPool_CarriesManyCallsAtOnce(t *testing.T) {
	addr, _ := start(t)
	c := newPool(t, nil).At(addr)
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			text := fmt.Sprint(i)
			got, err := Call(context.Background(), c, echoMethod, &echo{text})
			if err != nil || got.Text != text {
				t.Errorf("echo of %s: %v, %v", text, got, err)
			}
		})
	}
	wg.Wait()
}

func TestCall_ErrorsKeepTheirKind(t *testing.T) {
	addr, _ := start(t)
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
	addr, _ := start(t)
	c := newPool(t, nil).At(addr)
	var out echo
	err := c.Call(context.Background(), echoMethod.Name, map[string]any{"Text": map[string]int{"a": 1}}, &out)
	if !structs.IsKind(err, structs.KindInvalid) {
		t.Fatalf("got %v, want invalid", err)
	}
	if _, err := Call(context.Background(), c, echoMethod, &echo{"still there"}); err != nil {
		t.Fatalf("the next call: %v", err)
	}
}

func TestCall_CancelsItsHandler(t *testing.T) {
	addr, hung := start(t)
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
		t.Errorf("handler %s", got)
	}
}

func TestSession_CarriesCallsBothWays(t *testing.T) {
	addr, _ := start(t)
	mine := NewServer(hclog.NewNullLogger(), Handle(echoMethod, func(_ context.Context, r *echo) (*echo, error) {
		return &echo{"client: " + r.Text}, nil
	}))
	t.Cleanup(mine.Close)
	p := newPool(t, mine)
	got, err := Call(context.Background(), p.At(addr), backMethod, &echo{"hello"})
	if err != nil || got.Text != "client: back hello" {
		t.Fatalf("%v, %v", got, err)
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
	addr, _ := start(t)
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte{ByteRPC}); err != nil {
		t.Fatal(err)
	}
	c := msgpackrpc.NewCodecFromHandle(true, true, conn, codec.Handle)
	var got echo
	if err := msgpackrpc.CallWithCodec(c, "Test.Echo", &echo{"stock"}, &got); err != nil || got.Text != "stock" {
		t.Fatalf("%v, %v", got, err)
	}
	if err := msgpackrpc.CallWithCodec(c, "Test.Fail", &echo{}, &got); err == nil ||
		err.(stdrpc.ServerError) != "conflict: no: two writers" {
		t.Fatalf("got %v", err)
	}
}

func TestServer_ClosesConnectionsAfterClose(t *testing.T) {
	srv := NewServer(hclog.NewNullLogger())
	srv.Close()
	for name, serve := range map[string]func(net.Conn){"plain": srv.ServeConn, "mux": srv.ServeMux} {
		near, far := net.Pipe()
		serve(far)
		_ = near.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := near.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("%s: %v, want EOF", name, err)
		}
	}
}
