package rpc

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/internal/codec"
	"berth/internal/loadshed"
	"berth/structs"
)

// heldTexts starts calls of 1 MiB each that stay until the server lets them go.
func heldTexts(t *testing.T, l *limited, n int) chan error {
	return fill(t, l, n, newPool(t, nil).At(l.addr), holdMethod, echo{strings.Repeat("x", 1<<20)})
}

func TestServer_LargeRequestsInFlightAreBounded(t *testing.T) {
	limits := small()
	limits.InFlight = 5 << 20
	l := startLimited(t, limits, 0)
	held := heldTexts(t, l, 2)
	c := newPool(t, nil).At(l.addr)
	_, err := Call(t.Context(), c, echoMethod, &echo{strings.Repeat("y", 4<<20)})
	busy(t, "more bytes than are left", err)
	if err == nil ||
		!strings.Contains(err.Error(), "large requests in flight of nearly 5 MiB, the most it takes") {
		t.Errorf("%v does not name the limit", err)
	}
	for range 3 { // over the stream of the request that was refused: its place is not lost
		if got, err := Call(t.Context(), c, echoMethod, &echo{"small"}); err != nil || got.Text != "small" {
			t.Fatalf("a small request beside them: %v", err)
		}
	}
	close(l.free)
	for range 2 {
		if err := <-held; err != nil {
			t.Error(err)
		}
	}
	for range 3 { // the bytes of all requests are released
		if _, err := Call(t.Context(), c, echoMethod, &echo{strings.Repeat("y", 1<<20)}); err != nil {
			t.Fatalf("when there is room again: %v", err)
		}
	}
}

func TestServer_SmallRequestsAreNotRefusedForBytes(t *testing.T) {
	limits := small()
	limits.InFlight = 0
	l := startLimited(t, limits, 0)
	c := newPool(t, nil).At(l.addr)
	if _, err := Call(t.Context(), c, echoMethod, &echo{strings.Repeat("x", 30<<10)}); err != nil {
		t.Errorf("a small one: %v", err)
	}
	_, err := Call(t.Context(), c, echoMethod, &echo{strings.Repeat("x", structs.SmallRPC)})
	busy(t, "a large one", err)
}

// Waiting requests may be very many, so they count from fewer bytes on.
func TestServer_BytesOfWaitingRequestsAreBounded(t *testing.T) {
	limits := small()
	limits.InFlight = 0
	l := startLimited(t, limits, 0)
	c := newPool(t, nil).At(l.addr)
	_, err := Call(t.Context(), c, slowMethod, &echo{strings.Repeat("x", structs.SmallWaitingRPC)})
	busy(t, "a waiting one", err)
}

func TestServer_BytesComeBackHoweverARequestEnds(t *testing.T) {
	s := NewServer(hclog.NewNullLogger(),
		Handle(echoMethod, func(context.Context, *echo) (*echo, error) { panic("a handler") }))
	large := strings.Repeat("x", 1<<20)
	var b []byte
	for n, req := range []any{&echo{large}, map[string]any{"Text": []string{large}},
		7} { // served, one that does not decode, a small one
		b = appendRequestHead(b, echoMethod.Name, uint64(n))
		var err error
		if b, err = codec.Append(b, req); err != nil {
			t.Fatal(err)
		}
	}
	b, _ = codec.Append(appendRequestHead(b, "Test.Nothing", 9), &echo{large})
	b, _ = codec.Append(appendRequestHead(b, echoMethod.Name, 10), &echo{large})
	near, far := net.Pipe()
	var caller sync.WaitGroup
	caller.Go(func() { _, _ = io.Copy(io.Discard, near) })
	caller.Go(func() {
		_, _ = near.Write(b[:len(b)-100]) // the last one is cut
		_ = near.Close()
	})
	s.serveStream(t.Context(), far, s.newConnLoad())
	caller.Wait()
	if !s.bytes.Take(DefaultLimits().InFlight) || s.bytes.Take(1) {
		t.Error("some bytes are still taken, or came back twice")
	}
}

func TestServer_PartsOfARequestAreBounded(t *testing.T) {
	limits := small()
	limits.InFlight = 1 << 20
	l := startLimited(t, limits, 0)
	c := newPool(t, nil).At(l.addr)
	type parts struct{ Some []*echo }
	manyMethod := structs.Method[parts, echo]{Name: echoMethod.Name}
	for n, want := range map[int]structs.Kind{100: "", 3000: structs.KindUnavailable,
		structs.MaxRPCParts: structs.KindInvalid} {
		_, err := Call(t.Context(), c, manyMethod, &parts{make([]*echo, n)})
		if structs.KindOf(err) != want {
			t.Errorf("a list of %d: %v, want %q", n, err, want)
		}
	}
}

func TestMessages_AreReadPastWithoutBytesForThem(t *testing.T) {
	large, err := codec.Encode(map[string]any{"text": strings.Repeat("x", 1<<20), "list": make([]any, 300_000),
		"deep": manyShapes()})
	if err != nil {
		t.Fatal(err)
	}
	stream := append(bytes.Repeat(append(large, 7), 3), large[:len(large)-1]...)
	budget := loadshed.NewBudget(256 << 10)
	m := newMessages(&slowReader{bytes.NewReader(stream)}, 1<<30)
	m.budget = budget
	for range 3 {
		if b, err := m.next(); !errors.Is(err, errFull) || m.lost {
			t.Fatalf("%d bytes, %v; want it to be read past", len(b), err)
		}
		n := 0
		if err := m.read(&n); err != nil || n != 7 {
			t.Fatalf("the next one is %d: %v", n, err)
		}
		if cap(m.buf) > 512<<10 {
			t.Fatalf("a buffer of %d bytes", cap(m.buf))
		}
	}
	if _, err := m.next(); !errors.Is(err, io.ErrUnexpectedEOF) || !m.lost {
		t.Errorf("one that is cut: %v", err)
	}
	m.free()
	if !budget.Take(256<<10) || budget.Take(1) {
		t.Error("some bytes are still taken, or came back twice")
	}
}

// slowReader returns up to 1000 bytes at once.
type slowReader struct{ r io.Reader }

func (s *slowReader) Read(p []byte) (int, error) { return s.r.Read(p[:min(len(p), 1000)]) }
