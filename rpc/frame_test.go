package rpc

import (
	"bytes"
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

// TestSession_ACallIsOneWriteEachWay: only the opening of the stream takes more.
func TestSession_ACallIsOneWriteEachWay(t *testing.T) {
	srv := NewServer(hclog.NewNullLogger(), echoEndpoint())
	near, far := net.Pipe()
	mine := &countingConn{Conn: near}
	theirs := &countingConn{Conn: far}
	served := make(chan struct{})
	go func() {
		defer close(served)
		srv.ServeMux(theirs)
	}()
	mux, err := yamux.Client(&frames{Conn: mine}, muxConfig(hclog.NewNullLogger()))
	if err != nil {
		t.Fatal(err)
	}
	s := &Session{mux: mux, answers: structs.MaxRPCAnswer}
	t.Cleanup(func() {
		s.Close()
		srv.Close()
		<-served
	})
	call := func(text string) {
		got, err := Call(t.Context(), s, echoMethod, &echo{text})
		if err != nil || got.Text != text {
			t.Fatalf("an echo of %d bytes got %d bytes, %v", len(text), len(got.Text), err)
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
			t.Errorf("end %d wrote %d times for %d calls, want one write a call", i, n, calls)
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
	head := func(kind byte, length byte) []byte {
		return []byte{0, kind, 0, 0, 0, 0, 0, 1, 0, 0, 0, length}
	}
	body := bytes.Repeat([]byte("b"), 200)
	parts := [][]byte{
		head(1, 9),
		head(frameData, 0),
		head(frameData, 200),
		body,
		head(2, 0),
		head(frameData, 12),
		head(frameData, 12),
		head(3, 0),
	}
	go func() {
		defer near.Close()
		for _, p := range parts {
			if n, err := f.Write(p); n != len(p) || err != nil {
				t.Errorf("Write returned %d, %v; want %d", n, err, len(p))
			}
		}
	}()
	var got bytes.Buffer
	if _, err := got.ReadFrom(far); err != nil {
		t.Fatal(err)
	}
	if want := bytes.Join(parts, nil); !bytes.Equal(got.Bytes(), want) {
		t.Errorf("got bytes %x, want %x", got.Bytes(), want)
	}
	if n := int(c.writes.Load()); n != len(parts)-2 { // two parts are bodies
		t.Errorf("%d parts took %d writes, want %d", len(parts), n, len(parts)-2)
	}
}
