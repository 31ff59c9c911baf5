package rpc

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
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
	free  chan struct{} // closed to end all of them
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
	srv := NewServer(hclog.NewNullLogger(), slow, echoEndpoint(),
		Handle(lookMethod, func(ctx context.Context, _ *lookRequest) (*echo, error) { return stay(ctx) }),
		Handle(holdMethod, func(ctx context.Context, _ *echo) (*echo, error) { return stay(ctx) }))
	srv.SetLimits(limits)
	l.addr = listen(t, srv, perAddr)
	return l
}

// smallLimits let a request wait for a permit as long as needed: an earlier one may return its permit after
// its answer.
func smallLimits() Limits {
	l := DefaultLimits()
	l.Calls = 2
	l.Waiting = 3
	l.Streams = 20
	l.Queue = time.Minute
	l.RetryAfter = 300 * time.Millisecond
	return l
}

// startCalls makes n calls and returns when they have begun. Their errors arrive in the channel.
func startCalls(t *testing.T, l *limited, n int, call func() error) chan error {
	t.Helper()
	ended := make(chan error, n)
	for range n {
		go func() { ended <- call() }()
	}
	for range n {
		<-l.began
	}
	return ended
}

// callTo returns a call of a method with its request, without the answer.
func callTo[Req any](c Caller, m structs.Method[Req, echo], req Req) func() error {
	return func() error {
		_, err := Call(context.Background(), c, m, &req)
		return err
	}
}

func wantRejection(t *testing.T, request string, err error) {
	t.Helper()
	if structs.RetryAfter(err) != 300*time.Millisecond || !structs.IsKind(err, structs.KindUnavailable) {
		t.Errorf("%s: got %v with retry time %s; want unavailable with 300ms",
			request, err, structs.RetryAfter(err))
	}
}

func TestLimits_CountWaitingRequestsApart(t *testing.T) {
	l := startLimited(t, smallLimits(), 0)
	c := newPool(t, nil).At(l.addr)
	look := lookRequest{structs.QueryOptions{MinIndex: 7}}
	waiting := startCalls(t, l, 2, callTo(c, lookMethod, look))
	slow := startCalls(t, l, 1, callTo(c, slowMethod, echo{}))
	_, err := Call(t.Context(), c, lookMethod, &look)
	wantRejection(t, "a fourth waiting request", err)
	for range 10 {
		if _, err := Call(t.Context(), c, echoMethod, &echo{"short"}); err != nil {
			t.Fatalf("a short call beside waiting ones failed: %v", err)
		}
	}
	if _, err := Call(t.Context(), newPool(t, nil).At(l.addr), echoMethod, &echo{}); err != nil {
		t.Errorf("a call over another connection failed: %v", err)
	}
	close(l.free)
	for _, ch := range []chan error{waiting, waiting, slow} {
		if err := <-ch; err != nil {
			t.Error(err)
		}
	}
}

func TestLimits_BoundTheCallsOfAConnection(t *testing.T) {
	limits := smallLimits()
	limits.Queue = 20 * time.Millisecond
	l := startLimited(t, limits, 0)
	c := newPool(t, nil).At(l.addr)
	held := startCalls(t, l, 2, callTo(c, holdMethod, echo{}))
	_, err := Call(t.Context(), c, echoMethod, &echo{})
	wantRejection(t, "a third call", err)
	if _, err := Call(t.Context(), newPool(t, nil).At(l.addr), echoMethod, &echo{}); err != nil {
		t.Errorf("a call over another connection failed: %v", err)
	}
	close(l.free)
	for range 2 {
		if err := <-held; err != nil {
			t.Error(err)
		}
	}
	err = structs.Busy(time.Second, "not called yet")
	for end := time.Now().Add(time.Minute); structs.RetryAfter(err) > 0 && time.Now().Before(end); {
		_, err = Call(t.Context(), c, echoMethod, &echo{}) // the others return their permits after their answers
	}
	if err != nil {
		t.Errorf("a call after the others ended failed: %v", err)
	}
}

func TestLimits_BoundAllCalls(t *testing.T) {
	limits := smallLimits()
	limits.AllCalls = 3
	limits.Queue = 20 * time.Millisecond
	l := startLimited(t, limits, 0)
	one := newPool(t, nil).At(l.addr)
	two := newPool(t, nil).At(l.addr)
	held := startCalls(t, l, 2, callTo(one, holdMethod, echo{}))
	last := startCalls(t, l, 1, callTo(two, holdMethod, echo{}))
	_, err := Call(t.Context(), two, echoMethod, &echo{})
	wantRejection(t, "a fourth call", err)
	close(l.free)
	for _, ch := range []chan error{held, held, last} {
		if err := <-ch; err != nil {
			t.Error(err)
		}
	}
}

func TestLimits_ACallWaitsForAPlace(t *testing.T) {
	l := startLimited(t, smallLimits(), 0)
	c := newPool(t, nil).At(l.addr)
	held := startCalls(t, l, 2, callTo(c, holdMethod, echo{}))
	queued := make(chan error, 1)
	go func() { queued <- callTo(c, echoMethod, echo{})() }()
	close(l.free)
	for range 2 {
		<-held
	}
	if err := <-queued; err != nil {
		t.Error(err)
	}
}

func TestLimits_BoundTheStreamsOfASession(t *testing.T) {
	limits := smallLimits()
	limits.Streams = 4
	limits.Waiting = 100
	l := startLimited(t, limits, 0)
	p := newPool(t, nil)
	c := p.At(l.addr)
	look := lookRequest{structs.QueryOptions{MinIndex: 7}}
	startCalls(t, l, 4, callTo(c, lookMethod, look))
	_, err := Call(t.Context(), c, lookMethod, &look)
	wantRejection(t, "a fifth stream", err)

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
		t.Errorf("a call over a new session failed: %v", err)
	}
}

func TestListener_BoundsTheConnectionsOfAnAddress(t *testing.T) {
	l := startLimited(t, smallLimits(), 2)
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
		t.Errorf("a read of the third connection got %v, want a closed connection", err)
	}
	conns[0].Close()
	for { // until the server has read the end of the first connection
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
	limits := smallLimits()
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
	part := make([]byte, 64<<10)
	for range 32 { // twice the limit
		if _, err := conn.Write(part); err != nil {
			t.Fatal(err)
		}
	}
	conn.(*net.TCPConn).CloseWrite()
	answer, err := io.ReadAll(conn)
	const want = "invalid: the payload of Test.Echo: it is longer than 1048576 bytes"
	if err != nil || !strings.Contains(string(answer), want) {
		t.Errorf("got answer %q, %v; want %q", answer, err, want)
	}
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 16<<20 {
		t.Errorf("%d MiB were allocated, want at most 16", grown>>20)
	}
}

func TestServer_RejectsARequestAboveTheLimit(t *testing.T) {
	limits := smallLimits()
	limits.Message = 1 << 20
	l := startLimited(t, limits, 0)
	c := newPool(t, nil).At(l.addr)
	_, err := Call(t.Context(), c, echoMethod, &echo{strings.Repeat("x", 4<<20)})
	if !structs.IsKind(err, structs.KindInvalid) {
		t.Errorf("got %v, want invalid", err)
	}
	for range 3 {
		if _, err := Call(t.Context(), c, echoMethod, &echo{strings.Repeat("x", 1<<19)}); err != nil {
			t.Errorf("a request within the limit failed: %v", err)
		}
	}
}
