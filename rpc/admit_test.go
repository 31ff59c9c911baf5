package rpc

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/tinylib/msgp/msgp"

	"berth/structs"
)

// bounded is a server with a write that is admitted while room returns nil.
func bounded(t *testing.T, room func(coming int) error) (s *Server, conn net.Conn) {
	e := Handle(echoMethod, func(context.Context, *echo) (*echo, error) { return &echo{"written"}, nil })
	e.Admit = room
	s = NewServer(hclog.NewNullLogger(), e)
	here, there := net.Pipe()
	var serving sync.WaitGroup
	serving.Go(func() { s.ServeConn(there) })
	t.Cleanup(func() { _ = here.Close(); s.Close(); serving.Wait() })
	return s, here
}

// answersOf sends so many requests at once and returns the answers' failures by number.
func answersOf(t *testing.T, conn net.Conn, many int, payload ...byte) []string {
	t.Helper()
	var b []byte
	for n := range many {
		b = append(appendRequestHead(b, echoMethod.Name, uint64(n)), payload...)
	}
	var sending sync.WaitGroup
	sending.Go(func() { _, _ = conn.Write(b) }) // the read shows an error
	defer sending.Wait()
	in, failures := newMessages(conn, structs.MaxRPCAnswer), make([]string, many)
	for range many {
		head, err := readAnswer(in)
		if err != nil {
			t.Fatal(err)
		}
		failures[head.Seq] = head.Error
	}
	return failures
}

// TestServer_RefusesBeforeItDecodes: neither is it decoded, nor does anything run.
func TestServer_RefusesBeforeItDecodes(t *testing.T) {
	var full atomic.Bool
	full.Store(true)
	s, conn := bounded(t, func(int) error {
		if full.Load() {
			return structs.Busy(time.Second, "others write")
		}
		return nil
	})
	wrong := []byte{0x81, 0xa4, 'T', 'e', 'x', 't', 0x80} // a map for a text
	const told = "unavailable: others write; retry after 1s"
	if got := answersOf(t, conn, 3, wrong...); slices.ContainsFunc(got,
		func(s string) bool { return s != told }) {
		t.Errorf("%q", got)
	}
	if _, err := Call(t.Context(), s, echoMethod, &echo{}); structs.RetryAfter(err) != time.Second ||
		err.Error() != "others write" {
		t.Errorf("in the process: %v, again after %s", err, structs.RetryAfter(err))
	}
	full.Store(false)
	if got := answersOf(t, conn, 1, wrong...); !strings.HasPrefix(got[0], "invalid: ") {
		t.Errorf("with room: %q", got)
	}
	if got := answersOf(t, conn, 2, 0x80); got[0] != "" || got[1] != "" {
		t.Errorf("with room: %q", got)
	}
	if _, err := Call(t.Context(), s, echoMethod, &echo{}); err != nil {
		t.Error(err)
	}
}

// TestServer_CountsAdmittedRequests, so that it admits no more than the bound.
func TestServer_CountsAdmittedRequests(t *testing.T) {
	const before = 3 // other requests
	var told, admitted, served atomic.Int64
	s, conn := bounded(t, func(coming int) error { told.Store(int64(coming)); return nil })
	e := s.endpoints[echoMethod.Name]
	e.Inline = func(any) bool { admitted.Store(s.coming.Load()); return false }
	serve := e.Serve
	e.Serve = func(ctx context.Context, req any) (any, error) {
		served.Store(s.coming.Load())
		return serve(ctx, req)
	}
	s.coming.Store(before)
	answersOf(t, conn, 1, 0x80)
	if told.Load() != before || admitted.Load() != before+1 || served.Load() != before {
		t.Errorf("%d were coming, with the request %d, while it was served %d",
			told.Load(), admitted.Load(), served.Load())
	}
}

// TestRefusals_CostLittleMemory: a refused request has no goroutine and no handler, and refusals share a
// buffer.
func TestRefusals_CostLittleMemory(t *testing.T) {
	s, _, _ := flooded(t)
	near, far := net.Pipe()
	var serving sync.WaitGroup
	serving.Go(func() { s.ServeConn(far) })
	defer serving.Wait()
	defer near.Close()
	const many = 16
	var batch []byte
	for n := range many {
		batch = appendRequestHead(batch, shedQuick.Name, uint64(n))
		batch = msgp.AppendString(msgp.AppendString(msgp.AppendMapHeader(batch, 1), "Prefix"), "volume")
	}
	in := newMessages(near, 1<<20)
	allocs := testing.AllocsPerRun(200, func() {
		if _, err := near.Write(batch); err != nil {
			t.Fatal(err)
		}
		for range 2 * many {
			if _, err := in.next(); err != nil {
				t.Fatal(err)
			}
		}
	})
	if allocs > 16*many {
		t.Errorf("%.1f allocations for %d refusals", allocs, many)
	}
}

// TestServer_WritesInlineAnswersTogether with those after them that have come with them, but not late.
func TestServer_WritesInlineAnswersTogether(t *testing.T) {
	quick := Handle(echoMethod, func(_ context.Context, r *echo) (*echo, error) { return r, nil })
	quick.Inline, quick.Sheddable = func(any) bool { return true }, true
	s := NewServer(hclog.NewNullLogger(), quick)
	near, far := net.Pipe()
	conn := &countingConn{Conn: far}
	var serving sync.WaitGroup
	serving.Go(func() { s.ServeConn(conn) })
	defer serving.Wait()
	defer near.Close()
	if got := answersOf(t, near, 20, 0x80); slices.ContainsFunc(got, func(s string) bool { return s != "" }) {
		t.Errorf("%q", got)
	}
	if n := conn.writes.Load(); n > 3 {
		t.Errorf("20 answers took %d writes", n)
	}
}

// TestServer_FlushesAnswersBeforeItWaits: those that are kept are written before.
func TestServer_FlushesAnswersBeforeItWaits(t *testing.T) {
	hold, held := make(chan struct{}), make(chan struct{}, 8)
	quick := Handle(echoMethod, func(_ context.Context, r *echo) (*echo, error) { return r, nil })
	quick.Inline, quick.Sheddable = func(any) bool { return true }, true
	slow := Handle(hangMethod, func(context.Context, *echo) (*echo,
		error) {
		held <- struct{}{}
		<-hold
		return &echo{}, nil
	})
	s := NewServer(hclog.NewNullLogger(), quick, slow)
	l := DefaultLimits()
	l.Calls, l.Queue = 2, time.Hour
	s.SetLimits(l)
	near, far := net.Pipe()
	var serving sync.WaitGroup
	serving.Go(func() { s.ServeConn(far) })
	defer serving.Wait()
	defer near.Close()
	defer close(hold)
	var b []byte
	for n, m := range []string{hangMethod.Name, echoMethod.Name, hangMethod.Name,
		hangMethod.Name} { // the last one does not run
		b = append(appendRequestHead(b, m, uint64(n)), 0x80)
	}
	if _, err := near.Write(b); err != nil {
		t.Fatal(err)
	}
	head, err := readHead(newMessages(near, structs.MaxRPCAnswer))
	if err != nil || head.Seq != 1 {
		t.Errorf("%+v, %v; expected the answer to the quick one", head, err)
	}
}
