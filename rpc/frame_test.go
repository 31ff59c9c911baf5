package rpc

import (
	"bytes"
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/yamux"

	"berth/structs"
)

// countingConn counts writes.
type countingConn struct {
	net.Conn
	writes atomic.Int32
}

func (c *countingConn) Write(b []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(b)
}

// TestSession_ACallIsOneWriteEachWay, except for the opening of its stream.
func TestSession_ACallIsOneWriteEachWay(t *testing.T) {
	srv := NewServer(hclog.NewNullLogger(),
		Handle(echoMethod, func(_ context.Context, r *echo) (*echo, error) { return r, nil }))
	near, far := net.Pipe()
	mine, theirs := &countingConn{Conn: near}, &countingConn{Conn: far}
	served := make(chan struct{})
	go func() { defer close(served); srv.ServeMux(theirs) }()
	mux, err := yamux.Client(&frames{Conn: mine}, muxConfig(hclog.NewNullLogger()))
	if err != nil {
		t.Fatal(err)
	}
	s := &Session{mux: mux, answers: structs.MaxRPCAnswer}
	t.Cleanup(func() { s.Close(); srv.Close(); <-served })
	call := func(text string) {
		got, err := Call(t.Context(), s, echoMethod, &echo{text})
		if err != nil || got.Text != text {
			t.Fatalf("%d bytes came back of %d: %v", len(got.Text), len(text), err)
		}
	}
	call("opens the stream")
	before := []int32{mine.writes.Load(), theirs.writes.Load()}
	const calls = 20
	for range calls {
		call("again")
	}
	for i, c := range []*countingConn{mine, theirs} {
		if n := c.writes.Load() - before[i]; n > calls+3 { // a keep-alive may be among them
			t.Errorf("end %d wrote %d times for %d calls", i, n, calls)
		}
	}
	for _, size := range []int{smallFrame - 100, smallFrame, smallFrame + 1, 100 << 10, 1 << 20} {
		call(strings.Repeat("x", size))
	}
}

func TestFrames_AreWrittenWhole(t *testing.T) {
	near, far := net.Pipe()
	c := &countingConn{Conn: near}
	f := &frames{Conn: c}
	head := func(kind byte, length byte) []byte { return []byte{0, kind, 0, 0, 0, 0, 0, 1, 0, 0, 0, length} }
	body := bytes.Repeat([]byte("b"), 200)
	parts := [][]byte{head(1, 9), head(frameData, 0), head(frameData, 200), body, head(2, 0),
		head(frameData, 12), head(frameData, 12), head(3, 0)}
	go func() {
		defer near.Close()
		for _, p := range parts {
			if n, err := f.Write(p); n != len(p) || err != nil {
				t.Errorf("%d of %d bytes, %v", n, len(p), err)
			}
		}
	}()
	var got bytes.Buffer
	if _, err := got.ReadFrom(far); err != nil {
		t.Fatal(err)
	}
	if want := bytes.Join(parts, nil); !bytes.Equal(got.Bytes(), want) {
		t.Errorf("written %x, want %x", got.Bytes(), want)
	}
	if n := c.writes.Load(); int(n) != len(parts)-2 {
		t.Errorf("%d writes of %d parts, two of which are bodies", n, len(parts))
	}
}
