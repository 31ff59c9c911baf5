package rpc

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/structs"
)

type lookRequest struct{ structs.QueryOptions }

var (
	lookMethod = structs.Method[lookRequest, echo]{Name: "Test.Look"}
	holdMethod = structs.Method[echo, echo]{Name: "Test.Hold"}
	slowMethod = structs.Method[echo, echo]{Name: "Test.Slow"}
)

// limited serves methods that wait until they are released, within limits.
type limited struct {
	addr  string
	began chan struct{} // one value per request that has begun
	free  chan struct{} // closed to let all of them go
}

func startLimited(t *testing.T, limits Limits, perAddr int) *limited {
	t.Helper()
	l := &limited{began: make(chan struct{}, 1000), free: make(chan struct{})}
	stay := func(ctx context.Context) (*echo, error) {
		l.began <- struct{}{}
		select {
		case <-l.free:
			return &echo{}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	slow := Handle(slowMethod, func(ctx context.Context, _ *echo) (*echo, error) { return stay(ctx) })
	slow.Slow = true
	srv := NewServer(hclog.NewNullLogger(), slow,
		Handle(lookMethod, func(ctx context.Context, _ *lookRequest) (*echo, error) { return stay(ctx) }),
		Handle(holdMethod, func(ctx context.Context, _ *echo) (*echo, error) { return stay(ctx) }),
		Handle(echoMethod, func(_ context.Context, r *echo) (*echo, error) { return r, nil }))
	srv.SetLimits(limits)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	listener := NewListener(ln, hclog.NewNullLogger(), map[byte]func(net.Conn){ByteRPC: srv.ServeConn,
		ByteMux: srv.ServeMux})
	if perAddr > 0 {
		listener.LimitPerAddr(perAddr)
	}
	var wg sync.WaitGroup
	wg.Go(func() { listener.Run(ctx) })
	t.Cleanup(func() { cancel(); srv.Close(); wg.Wait() })
	l.addr = ln.Addr().String()
	return l
}

func small() Limits {
	l := DefaultLimits()
	l.Calls, l.Waiting, l.Streams, l.Queue, l.RetryAfter = 2, 3, 20, 20*time.Millisecond, 300*time.Millisecond
	return l
}

// fill starts n calls and returns when they have begun. Their errors arrive in the channel.
func fill[Req any](t *testing.T, l *limited, n int, c Caller, m structs.Method[Req, echo],
	req Req) chan error {
	t.Helper()
	ended := make(chan error, n)
	for range n {
		go func() {
			_, err := Call(context.Background(), c, m, &req)
			ended <- err
		}()
	}
	for range n {
		<-l.began
	}
	return ended
}

func busy(t *testing.T, what string, err error) {
	t.Helper()
	if structs.RetryAfter(err) != 300*time.Millisecond || !structs.IsKind(err, structs.KindUnavailable) {
		t.Errorf("%s: got %v, after %s; want unavailable, again after 300ms", what, err, structs.RetryAfter(err))
	}
}

func TestLimits_CountWaitingRequestsApart(t *testing.T) {
	l := startLimited(t, small(), 0)
	c := newPool(t, nil).At(l.addr)
	look := lookRequest{structs.QueryOptions{MinIndex: 7}}
	waiting := fill(t, l, 2, c, lookMethod, look)
	slow := fill(t, l, 1, c, slowMethod, echo{})
	_, err := Call(t.Context(), c, lookMethod, &look)
	busy(t, "a fourth that waits", err)
	for range 10 {
		if _, err := Call(t.Context(), c, echoMethod, &echo{"short"}); err != nil {
			t.Fatalf("a short call beside those that wait: %v", err)
		}
	}
	if _, err := Call(t.Context(), newPool(t, nil).At(l.addr), echoMethod, &echo{}); err != nil {
		t.Errorf("another connection: %v", err)
	}
	close(l.free)
	for _, ch := range []chan error{waiting, waiting, slow} {
		if err := <-ch; err != nil {
			t.Error(err)
		}
	}
}

func TestLimits_BoundTheCallsOfAConnection(t *testing.T) {
	l := startLimited(t, small(), 0)
	c := newPool(t, nil).At(l.addr)
	held := fill(t, l, 2, c, holdMethod, echo{})
	_, err := Call(t.Context(), c, echoMethod, &echo{})
	busy(t, "a third call", err)
	if _, err := Call(t.Context(), newPool(t, nil).At(l.addr), echoMethod, &echo{}); err != nil {
		t.Errorf("another connection: %v", err)
	}
	close(l.free)
	for range 2 {
		if err := <-held; err != nil {
			t.Error(err)
		}
	}
	if _, err := Call(t.Context(), c, echoMethod, &echo{}); err != nil {
		t.Errorf("when there is room again: %v", err)
	}
}

func TestLimits_BoundAllCalls(t *testing.T) {
	limits := small()
	limits.AllCalls = 3
	l := startLimited(t, limits, 0)
	one, two := newPool(t, nil).At(l.addr), newPool(t, nil).At(l.addr)
	held := fill(t, l, 2, one, holdMethod, echo{})
	last := fill(t, l, 1, two, holdMethod, echo{})
	_, err := Call(t.Context(), two, echoMethod, &echo{})
	busy(t, "a fourth call", err)
	close(l.free)
	for _, ch := range []chan error{held, held, last} {
		if err := <-ch; err != nil {
			t.Error(err)
		}
	}
}

func TestLimits_ACallWaitsForAPlace(t *testing.T) {
	limits := small()
	limits.Queue = time.Minute
	l := startLimited(t, limits, 0)
	c := newPool(t, nil).At(l.addr)
	held := fill(t, l, 2, c, holdMethod, echo{})
	queued := make(chan error, 1)
	go func() {
		_, err := Call(context.Background(), c, echoMethod, &echo{})
		queued <- err
	}()
	close(l.free)
	for range 2 {
		<-held
	}
	if err := <-queued; err != nil {
		t.Error(err)
	}
}

func TestLimits_BoundTheStreamsOfASession(t *testing.T) {
	limits := small()
	limits.Streams, limits.Waiting = 4, 100
	l := startLimited(t, limits, 0)
	p := newPool(t, nil)
	c := p.At(l.addr)
	look := lookRequest{structs.QueryOptions{MinIndex: 7}}
	fill(t, l, 4, c, lookMethod, look)
	_, err := Call(t.Context(), c, lookMethod, &look)
	busy(t, "a fifth stream", err)

	s, err := p.Session(t.Context(), l.addr)
	if err != nil {
		t.Fatal(err)
	}
	for range 8 { // opened without a request
		if _, err := s.mux.Open(); err != nil {
			break
		}
	}
	<-s.Done()
	if _, err := Call(t.Context(), c, echoMethod, &echo{}); err != nil {
		t.Errorf("over a new session: %v", err)
	}
}

func TestListener_BoundsTheConnectionsOfAnAddress(t *testing.T) {
	l := startLimited(t, small(), 2)
	var conns []net.Conn
	for range 3 {
		conn, err := net.Dial("tcp", l.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conns = append(conns, conn)
	}
	if _, err := conns[2].Read(make([]byte, 1)); !errors.Is(err, io.EOF) &&
		!strings.Contains(err.Error(), "reset") {
		t.Errorf("the third connection: %v, want it closed", err)
	}
	conns[0].Close()
	for { // until the server has seen the end of the first
		_, err := Call(t.Context(), newPool(t, nil).At(l.addr), echoMethod, &echo{})
		if err == nil {
			return
		}
		if t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
}

func TestServer_AllocatesNothingForAClaimedLength(t *testing.T) {
	limits := small()
	limits.Message = 1 << 20
	l := startLimited(t, limits, 0)
	conn, err := net.Dial("tcp", l.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	head := append([]byte{ByteRPC, 0x82, 0xad}, "ServiceMethod"...)
	head = append(head, 0xa9)
	head = append(append(head, "Test.Echo"...), 0xa3, 'S', 'e', 'q', 1)
	body := append([]byte{0x81, 0xa4}, "Text"...)
	body = binary.BigEndian.AppendUint32(append(body, 0xdb), 0xf0000000) // a text of nearly 4 GiB
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := conn.Write(append(head, body...)); err != nil {
		t.Fatal(err)
	}
	growBy := make([]byte, 64<<10)
	for range 32 { // twice the limit
		if _, err := conn.Write(growBy); err != nil {
			t.Fatal(err)
		}
	}
	conn.(*net.TCPConn).CloseWrite()
	answer, err := io.ReadAll(conn)
	if err != nil ||
		!strings.Contains(string(answer), "invalid: the payload of Test.Echo: it is longer than 1048576 bytes") {
		t.Errorf("answered %q, %v", answer, err)
	}
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 16<<20 {
		t.Errorf("%d MiB were allocated", grown>>20)
	}
}

func TestServer_RefusesARequestAboveTheLimit(t *testing.T) {
	limits := small()
	limits.Message = 1 << 20
	l := startLimited(t, limits, 0)
	c := newPool(t, nil).At(l.addr)
	_, err := Call(t.Context(), c, echoMethod, &echo{strings.Repeat("x", 4<<20)})
	if !structs.IsKind(err, structs.KindInvalid) {
		t.Errorf("got %v, want invalid", err)
	}
	for range 3 {
		if _, err := Call(t.Context(), c, echoMethod, &echo{strings.Repeat("x", 1<<19)}); err != nil {
			t.Errorf("within the limit: %v", err)
		}
	}
}
