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

// startLargeCalls starts calls of 1 MiB each that the server serves until it is released.
func startLargeCalls(t *testing.T, l *limited, n int) chan error {
	c := newPool(t, nil).At(l.addr)
	large := echo{strings.Repeat("x", 1<<20)}
	return startCalls(t, l, n, callTo(c, holdMethod, large))
}

func TestServer_LargeRequestsInFlightAreBounded(t *testing.T) {
	limits := smallLimits()
	limits.InFlight = 5 << 20
	l := startLimited(t, limits, 0)
	held := startLargeCalls(t, l, 2)
	c := newPool(t, nil).At(l.addr)
	_, err := Call(t.Context(), c, echoMethod, &echo{strings.Repeat("y", 4<<20)})
	wantRejection(t, "a request of more bytes than are left", err)
	const limit = "large requests in flight of nearly 5 MiB, the most it takes"
	if err == nil || !strings.Contains(err.Error(), limit) {
		t.Errorf("got error %v, want one that has %q", err, limit)
	}
	for range 3 { // over the stream of the rejected request, which continues
		if got, err := Call(t.Context(), c, echoMethod, &echo{"small"}); err != nil || got.Text != "small" {
			t.Fatalf("a small request beside large ones got %v, %v", got, err)
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
			t.Fatalf("a request after the large ones ended: %v", err)
		}
	}
}

func TestServer_SmallRequestsAreNotRejectedForBytes(t *testing.T) {
	limits := smallLimits()
	limits.InFlight = 0
	l := startLimited(t, limits, 0)
	c := newPool(t, nil).At(l.addr)
	if _, err := Call(t.Context(), c, echoMethod, &echo{strings.Repeat("x", 30<<10)}); err != nil {
		t.Errorf("a small request failed: %v", err)
	}
	_, err := Call(t.Context(), c, echoMethod, &echo{strings.Repeat("x", structs.SmallRPC)})
	wantRejection(t, "a large request", err)
}

// TestServer_BytesOfWaitingRequestsAreBounded: there may be very many waiting requests, so fewer bytes count.
func TestServer_BytesOfWaitingRequestsAreBounded(t *testing.T) {
	limits := smallLimits()
	limits.InFlight = 0
	l := startLimited(t, limits, 0)
	c := newPool(t, nil).At(l.addr)
	_, err := Call(t.Context(), c, slowMethod, &echo{strings.Repeat("x", structs.SmallWaitingRPC)})
	wantRejection(t, "a waiting request", err)
}

func TestServer_ReleasesTheBytesOfEveryRequest(t *testing.T) {
	s := NewServer(hclog.NewNullLogger(),
		Handle(echoMethod, func(context.Context, *echo) (*echo, error) { panic("a handler") }))
	large := strings.Repeat("x", 1<<20)
	var b []byte
	requests := []any{
		&echo{large},                            // its handler panics
		map[string]any{"Text": []string{large}}, // it does not decode
		7,                                       // it is small
	}
	for n, req := range requests {
		b = appendRequestHead(b, echoMethod.Name, uint64(n))
		var err error
		b, err = codec.Append(b, req)
		if err != nil {
			t.Fatal(err)
		}
	}
	b, _ = codec.Append(appendRequestHead(b, "Test.Nothing", 9), &echo{large})
	b, _ = codec.Append(appendRequestHead(b, echoMethod.Name, 10), &echo{large})
	near, far := net.Pipe()
	var caller sync.WaitGroup
	caller.Go(func() { _, _ = io.Copy(io.Discard, near) })
	caller.Go(func() {
		_, _ = near.Write(b[:len(b)-100]) // the last one is incomplete
		_ = near.Close()
	})
	s.serveStream(t.Context(), far, s.newConnLoad())
	caller.Wait()
	if !s.bytes.Take(DefaultLimits().InFlight) || s.bytes.Take(1) {
		t.Error("the budget differs from its initial bytes")
	}
}

func TestServer_PartsOfARequestAreBounded(t *testing.T) {
	limits := smallLimits()
	limits.InFlight = 1 << 20
	l := startLimited(t, limits, 0)
	c := newPool(t, nil).At(l.addr)
	type parts struct{ Some []*echo }
	manyMethod := structs.Method[parts, echo]{Name: echoMethod.Name}
	for n, want := range map[int]structs.Kind{
		100:                 "",
		3000:                structs.KindUnavailable,
		structs.MaxRPCParts: structs.KindInvalid,
	} {
		_, err := Call(t.Context(), c, manyMethod, &parts{make([]*echo, n)})
		if structs.KindOf(err) != want {
			t.Errorf("a list of %d entries got %v, want kind %q", n, err, want)
		}
	}
}

func TestMessages_AreReadPastWithoutBudget(t *testing.T) {
	large, err := codec.Encode(map[string]any{
		"text": strings.Repeat("x", 1<<20),
		"list": make([]any, 300_000),
		"deep": manyShapes(),
	})
	if err != nil {
		t.Fatal(err)
	}
	stream := append(bytes.Repeat(append(large, 7), 3), large[:len(large)-1]...)
	budget := loadshed.NewBudget(256 << 10)
	m := newMessages(&slowReader{bytes.NewReader(stream)}, 1<<30)
	m.budget = budget
	for range 3 {
		if b, err := m.next(); !errors.Is(err, errFull) || m.lost {
			t.Fatalf("got %d bytes, %v, lost %t; want errFull", len(b), err, m.lost)
		}
		n := 0
		if err := m.read(&n); err != nil || n != 7 {
			t.Fatalf("the next value is %d, %v; want 7", n, err)
		}
		if cap(m.buf) > 512<<10 {
			t.Fatalf("the buffer has %d bytes, want at most 512 KiB", cap(m.buf))
		}
	}
	if _, err := m.next(); !errors.Is(err, io.ErrUnexpectedEOF) || !m.lost {
		t.Errorf("an incomplete value got %v, lost %t; want ErrUnexpectedEOF", err, m.lost)
	}
	m.free()
	if !budget.Take(256<<10) || budget.Take(1) {
		t.Error("the budget differs from its initial bytes")
	}
}

// slowReader returns up to 1000 bytes at once.
type slowReader struct{ r io.Reader }

func (s *slowReader) Read(p []byte) (int, error) { return s.r.Read(p[:min(len(p), 1000)]) }
