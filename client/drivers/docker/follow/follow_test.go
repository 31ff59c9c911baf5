package follow

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"go.uber.org/goleak"

	"berth/client/drivers/docker/dockertest"
	"berth/client/drivers/docker/engine"
)

func TestMain(m *testing.M) {
	reconnect.Min = time.Millisecond
	reconnect.Max = 10 * time.Millisecond
	goleak.VerifyTestMain(m)
}

// sink is an output that a test waits for.
type sink struct {
	mu      sync.Mutex
	text    bytes.Buffer
	written chan struct{}
}

func newSink() *sink { return &sink{written: make(chan struct{}, 1000)} }

func (s *sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written <- struct{}{}
	return s.text.Write(p)
}

func (s *sink) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// await waits until the output is the text.
func (s *sink) await(t *testing.T, want string) {
	t.Helper()
	for limit := time.After(2 * time.Minute); s.String() != want; {
		select {
		case <-s.written:
		case <-limit:
			t.Fatalf("the output is %q, want %q", s.String(), want)
		}
	}
}

// fixture is a running container and a copy of its output.
type fixture struct {
	*dockertest.Fake
	t      *testing.T
	from   Source
	id     string
	out    *sink
	errors *sink
	stop   func() error // ends the copy
	wait   func() error // waits for its end
}

func newFixture(t *testing.T, tty bool) *fixture {
	t.Helper()
	f := &fixture{Fake: dockertest.NewFake(t), t: t, out: newSink(), errors: newSink()}
	f.AddImage("a:1", "sha256:a")
	e := engine.New(f.Endpoint())
	id, err := e.Create(t.Context(), client.ContainerCreateOptions{
		Name:       "n",
		Config:     &container.Config{Image: "a:1", Tty: tty},
		HostConfig: &container.HostConfig{},
	})
	if err == nil {
		err = e.StartContainer(t.Context(), id)
	}
	if err != nil {
		t.Fatal(err)
	}
	f.id = id
	f.from = Source{
		Endpoint:  f.Endpoint(),
		Container: id,
		File:      filepath.Join(t.TempDir(), "position"),
	}
	return f
}

// copy begins a copy.
func (f *fixture) copy() {
	ctx, cancel := context.WithCancel(f.t.Context())
	done := make(chan error, 1)
	go func() { done <- Copy(ctx, f.from, f.out, f.errors) }()
	f.stop = func() error {
		cancel()
		return <-done
	}
	f.t.Cleanup(cancel)
	f.wait = func() error { return <-done }
}

var start = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)

// print prints a line n seconds after the start.
func (f *fixture) print(n int, text string) {
	f.Print(f.id, frameStdout, start.Add(time.Duration(n)*time.Second), text)
}

func TestCopy_FollowsBothStreams(t *testing.T) {
	f := newFixture(t, false)
	f.copy()
	f.print(1, "one\n")
	f.Print(f.id, frameStderr, start.Add(2*time.Second), "oops\n")
	f.print(3, "two\n")
	f.out.await(t, "one\ntwo\n")
	f.errors.await(t, "oops\n")
	f.print(4, "last\n")
	f.End(f.id, 0)
	if err := f.wait(); err != nil {
		t.Errorf("the copy ended with %v", err)
	}
	f.out.await(t, "one\ntwo\nlast\n")
}

// The daemon is away while the container prints, several times, and two messages have one time.
func TestCopy_LosesAndRepeatsNothingWhenTheDaemonRestarts(t *testing.T) {
	for _, tty := range []bool{false, true} {
		t.Run(fmt.Sprintf("tty=%t", tty), func(t *testing.T) {
			f := newFixture(t, tty)
			f.copy()
			want := ""
			for n := range 5 {
				for _, part := range []string{"a", "b", "c"} {
					text := fmt.Sprintf("%d%s\n", n, part)
					f.print(n, text)
					want += text
				}
				f.out.await(t, want)
				f.Stop()
				text := fmt.Sprintf("%d while away\n", n)
				f.print(n, text) // of the same time as the last one that was read
				want += text
				f.Serve()
				f.out.await(t, want)
			}
			f.End(f.id, 0)
			if err := f.wait(); err != nil {
				t.Errorf("the copy ended with %v", err)
			}
			f.out.await(t, want)
		})
	}
}

func TestCopy_ContinuesAtItsPosition(t *testing.T) {
	f := newFixture(t, false)
	f.copy()
	f.print(1, "one\n")
	f.print(1, "two\n")
	f.out.await(t, "one\ntwo\n")
	if err := f.stop(); !errors.Is(err, context.Canceled) {
		t.Errorf("the copy ended with %v", err)
	}
	f.print(1, "three\n")
	f.copy()
	f.out.await(t, "one\ntwo\nthree\n")
	f.End(f.id, 0)
	if err := f.wait(); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(f.from.File); err != nil || !strings.Contains(string(text), `"Seen":3`) {
		t.Errorf("the position is %s, %v", text, err)
	}
}

func TestForget_LeavesNoFile(t *testing.T) {
	f := newFixture(t, false)
	f.copy()
	f.print(1, "one\n")
	f.out.await(t, "one\n")
	if err := f.stop(); !errors.Is(err, context.Canceled) {
		t.Errorf("the copy ended with %v", err)
	}
	err := os.WriteFile(f.from.File+unfinished, nil, 0o600) // of a helper that was killed
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := Forget(f.from.File); err != nil {
			t.Error(err)
		}
		left, err := os.ReadDir(filepath.Dir(f.from.File))
		if err != nil || len(left) != 0 {
			t.Errorf("left are %v, %v", left, err)
		}
	}
}

// A daemon ends a stream in order when it is stopped, while the container runs on.
func TestCopy_GoesOnAfterTheEndOfAStream(t *testing.T) {
	f := newFixture(t, false)
	const call = "GET /containers/{id}/logs"
	f.Handle(call, func(http.ResponseWriter, *http.Request) { f.Handle(call, nil) })
	f.copy()
	f.print(1, "one\n")
	f.out.await(t, "one\n")
	f.End(f.id, 0)
	if err := f.wait(); err != nil {
		t.Error(err)
	}
}

// Not every daemon knows the nanoseconds of the time from which it is asked for output.
func TestReadFrames_DropsOlderMessages(t *testing.T) {
	out := newSink()
	f := &follower{at: position{Time: start.Add(time.Second), Seen: 1}}
	f.to[0] = out
	var stream string
	for n, text := range []string{"old\n", "seen\n", "new\n"} {
		at := start.Add(time.Duration(n) * time.Second).Format(time.RFC3339Nano)
		stream += frameOf(frameStdout, at+" "+text)
	}
	err := f.readFrames(strings.NewReader(stream))
	if err != nil || out.String() != "new\n" {
		t.Errorf("got %q, %v", out.String(), err)
	}
}

func TestCopy_EndsWithoutAContainer(t *testing.T) {
	f := newFixture(t, false)
	f.from.Container = "other"
	f.copy()
	if err := f.wait(); err != nil {
		t.Error(err)
	}
}

type closedWriter struct{}

func (closedWriter) Write([]byte) (int, error) { return 0, os.ErrClosed }

func TestCopy_EndsWhenNobodyReads(t *testing.T) {
	f := newFixture(t, false)
	f.print(1, "one\n")
	err := Copy(t.Context(), f.from, closedWriter{}, closedWriter{})
	if !errors.Is(err, errWrite) {
		t.Errorf("got %v", err)
	}
}

// frameOf is a frame with a message of a time.
func frameOf(stream byte, text string) string {
	header := [8]byte{stream}
	binary.BigEndian.PutUint32(header[4:], uint32(len(text)))
	return string(header[:]) + text
}

const stamp = "2026-01-02T03:04:05.000000006Z "

func TestReadFrames_RejectsGarbage(t *testing.T) {
	for text, want := range map[string]string{
		frameOf(1, stamp+"x") + "\x01\x00":         "unexpected EOF",
		frameOf(1, stamp+"x")[:12]:                 "unexpected EOF",
		frameOf(7, stamp+"x"):                      "stream 7",
		frameOf(3, "lost"):                         "cannot read the output: lost",
		frameOf(1, "no time"):                      "without a time",
		"\x01\x00\x00\x00\xff\xff\xff\xff garbage": "message of 4294967295 bytes",
	} {
		f := &follower{}
		f.to[0] = newSink()
		err := f.readFrames(strings.NewReader(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

// A terminal's output has no frames. The daemon splits a long line into messages of 16 KiB.
func TestReadRaw_SplitsMessages(t *testing.T) {
	long := strings.Repeat("x", maxMessage)
	for _, c := range []struct {
		name, text, want string
		ended            bool
	}{
		{"lines", stamp + "a\r\n" + stamp + "b\r\n", "a\r\nb\r\n", false},
		{"a long line", stamp + long + stamp + "y\r\n", long + "y\r\n", false},
		{"a line of just that length", stamp + long + "\n" + stamp + "y\r\n", long + "\ny\r\n", false},
		{"a broken stream", stamp + "a\n" + stamp + "b", "a\n", false},
		{"the last message", stamp + "a\n" + stamp + "b", "a\nb", true},
	} {
		out := newSink()
		f := &follower{}
		f.to[0] = out
		err := f.readRaw(strings.NewReader(c.text), c.ended)
		if err != nil || out.String() != c.want {
			t.Errorf("%s: got %q, %v", c.name, out.String(), err)
		}
	}
	f := &follower{}
	f.to[0] = newSink()
	endless := stamp + strings.Repeat("x", 2<<20)
	if err := f.readRaw(strings.NewReader(endless), false); err == nil {
		t.Error("a line without an end is no error")
	}
}
