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

// startBounded serves a write that is admitted while admit returns nil.
func startBounded(t *testing.T, admit func(coming int) error) (s *Server, conn net.Conn) {
	t.Helper()
	e := Handle(echoMethod, func(context.Context, *echo) (*echo, error) {
		return &echo{"written"}, nil
	})
	e.Admit = admit
	s = NewServer(hclog.NewNullLogger(), e)
	conn, _ = servePipe(t, s)
	return s, conn
}

// failuresOf sends many requests at once and returns the errors in their answers, by number of the request.
func failuresOf(t *testing.T, conn net.Conn, many int, payload ...byte) []string {
	t.Helper()
	var b []byte
	for n := range many {
		b = append(appendRequestHead(b, echoMethod.Name, uint64(n)), payload...)
	}
	var sending sync.WaitGroup
	sending.Go(func() { _, _ = conn.Write(b) }) // the read shows an error
	defer sending.Wait()
	in := newMessages(conn, structs.MaxRPCAnswer)
	failures := make([]string, many)
	for range many {
		head, err := readAnswer(in)
		if err != nil {
			t.Fatal(err)
		}
		failures[head.Seq] = head.Error
	}
	return failures
}

// TestServer_RejectsBeforeItDecodes: the server neither decodes a rejected request nor runs its handler.
func TestServer_RejectsBeforeItDecodes(t *testing.T) {
	var full atomic.Bool
	full.Store(true)
	s, conn := startBounded(t, func(int) error {
		if full.Load() {
			return structs.Busy(time.Second, "others write")
		}
		return nil
	})
	wrong := []byte{0x81, 0xa4, 'T', 'e', 'x', 't', 0x80} // a map in place of a text
	const rejection = "unavailable: others write; retry after 1s"
	got := failuresOf(t, conn, 3, wrong...)
	if want := slices.Repeat([]string{rejection}, 3); !slices.Equal(got, want) {
		t.Errorf("got errors %q, want %q", got, want)
	}
	_, err := Call(t.Context(), s, echoMethod, &echo{})
	if structs.RetryAfter(err) != time.Second || err.Error() != "others write" {
		t.Errorf("a call in the process got %v with retry time %s, want a rejection with 1s",
			err, structs.RetryAfter(err))
	}
	full.Store(false)
	got = failuresOf(t, conn, 1, wrong...)
	if !strings.HasPrefix(got[0], "invalid: ") {
		t.Errorf("an admitted request that does not decode got %q, want invalid", got)
	}
	got = failuresOf(t, conn, 2, 0x80)
	if got[0] != "" || got[1] != "" {
		t.Errorf("admitted requests got errors %q, want none", got)
	}
	_, err = Call(t.Context(), s, echoMethod, &echo{})
	if err != nil {
		t.Errorf("an admitted call in the process failed: %v", err)
	}
}

// TestServer_CountsAdmittedRequests: the bound of an endpoint covers admitted requests that are not served
// yet.
func TestServer_CountsAdmittedRequests(t *testing.T) {
	const before = 3 // other requests
	var atAdmit, atInline, atServe atomic.Int64
	s, conn := startBounded(t, func(coming int) error {
		atAdmit.Store(int64(coming))
		return nil
	})
	e := s.endpoints[echoMethod.Name]
	e.Inline = func(any) bool {
		atInline.Store(s.coming.Load())
		return false
	}
	serve := e.Serve
	e.Serve = func(ctx context.Context, req any) (any, error) {
		atServe.Store(s.coming.Load())
		return serve(ctx, req)
	}
	s.coming.Store(before)
	failuresOf(t, conn, 1, 0x80)
	got := []int64{atAdmit.Load(), atInline.Load(), atServe.Load()}
	if want := []int64{before, before + 1, before}; !slices.Equal(got, want) {
		t.Errorf("requests coming at Admit, Inline and Serve: got %d, want %d", got, want)
	}
}

// TestShed_CostsLittleMemory: a rejected request has no goroutine and no handler, and rejections share a
// buffer.
func TestShed_CostsLittleMemory(t *testing.T) {
	s, _, _ := startRejecting(t)
	near, _ := servePipe(t, s)
	const many = 16
	var batch []byte
	for n := range many {
		batch = appendRequestHead(batch, shedQuick.Name, uint64(n))
		batch = msgp.AppendMapHeader(batch, 1)
		batch = msgp.AppendString(batch, "Prefix")
		batch = msgp.AppendString(batch, "volume")
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
	const most = 18 * many // 15 a rejection; the race detector drops some of the pooled buffers
	if allocs > most {
		t.Errorf("got %.1f allocations for %d rejections, want at most %d", allocs, many, most)
	}
}

// inlineEcho is an endpoint that is served inline and returns its request.
func inlineEcho() Endpoint {
	e := echoEndpoint()
	e.Inline = func(any) bool { return true }
	e.Sheddable = true
	return e
}

// TestServer_WritesInlineAnswersTogether: the answers to inline requests that arrive together share a write.
func TestServer_WritesInlineAnswersTogether(t *testing.T) {
	s := NewServer(hclog.NewNullLogger(), inlineEcho())
	near, far := servePipe(t, s)
	got := failuresOf(t, near, 20, 0x80)
	if want := make([]string, 20); !slices.Equal(got, want) {
		t.Errorf("got errors %q, want none", got)
	}
	if n := far.writes.Load(); n > 3 {
		t.Errorf("20 answers took %d writes, want at most 3", n)
	}
}

// TestServer_FlushesAnswersBeforeItWaits: the server writes the queued answers before it waits for a permit.
func TestServer_FlushesAnswersBeforeItWaits(t *testing.T) {
	release := make(chan struct{})
	began := make(chan struct{}, 8)
	slow := Handle(hangMethod, func(context.Context, *echo) (*echo, error) {
		began <- struct{}{}
		<-release
		return &echo{}, nil
	})
	s := NewServer(hclog.NewNullLogger(), inlineEcho(), slow)
	l := DefaultLimits()
	l.Calls = 2
	l.Queue = time.Hour
	s.SetLimits(l)
	near, _ := servePipe(t, s)
	defer close(release)
	var b []byte
	methods := []string{hangMethod.Name, echoMethod.Name, hangMethod.Name, hangMethod.Name} // the last one waits
	for n, m := range methods {
		b = append(appendRequestHead(b, m, uint64(n)), 0x80)
	}
	if _, err := near.Write(b); err != nil {
		t.Fatal(err)
	}
	head, err := readHead(newMessages(near, structs.MaxRPCAnswer))
	if err != nil || head.Seq != 1 {
		t.Errorf("got answer %+v, %v; want the answer to request 1, which is inline", head, err)
	}
}
