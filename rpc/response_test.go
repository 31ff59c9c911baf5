package rpc

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"berth/structs"
)

// slowConn writes when the test permits it.
type slowConn struct {
	mu     sync.Mutex
	writes [][]byte
	began  chan struct{}
	permit chan error // the error of the next write
	closed bool
}

func newSlowConn() *slowConn {
	return &slowConn{began: make(chan struct{}), permit: make(chan error)}
}

func (c *slowConn) Write(b []byte) (int, error) {
	c.began <- struct{}{}
	if err := <-c.permit; err != nil {
		return 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes = append(c.writes, bytes.Clone(b))
	return len(b), nil
}

func (c *slowConn) Close() error {
	c.closed = true
	return nil
}

func newMessage(text string) *buffer { return &buffer{b: []byte(text)} }

func TestWriter_WritesConcurrentMessagesTogether(t *testing.T) {
	c := newSlowConn()
	w := newWriter(c)
	first := make(chan error)
	go func() { first <- w.write(newMessage("one")) }()
	<-c.began
	for range 10 {
		if err := w.write(newMessage("more")); err != nil {
			t.Fatal(err)
		}
	}
	c.permit <- nil
	<-c.began
	c.permit <- nil
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	want := []string{"one", strings.Repeat("more", 10)}
	if len(c.writes) != 2 || string(c.writes[0]) != want[0] || string(c.writes[1]) != want[1] {
		t.Errorf("got writes %q, want %q", c.writes, want)
	}
}

// TestWriter_WaitsForACallerThatDoesNotRead: the bytes left to write have a bound, and a writer beyond it
// waits.
func TestWriter_WaitsForACallerThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newSlowConn()
		w := newWriter(c)
		var wg sync.WaitGroup
		wg.Go(func() { _ = w.write(newMessage("one")) })
		<-c.began
		const each = keptBuffer / 4
		queued := 0
		for range 10 {
			wg.Go(func() {
				_ = w.write(&buffer{b: make([]byte, each)})
				w.mu.Lock()
				defer w.mu.Unlock()
				queued++
			})
		}
		synctest.Wait()
		if w.size > keptBuffer+each || queued != w.size/each {
			t.Errorf("the queue has %d bytes of %d messages, want about %d bytes", w.size, queued, keptBuffer)
		}
		c.permit <- nil
		for written := 0; written < 10*each; {
			<-c.began
			c.permit <- nil
			synctest.Wait()
			c.mu.Lock()
			written += len(c.writes[len(c.writes)-1])
			c.mu.Unlock()
		}
		wg.Wait()
	})
}

func TestWriter_WritesNothingAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newSlowConn()
		w := newWriter(c)
		var wg sync.WaitGroup
		wg.Go(func() { _ = w.write(newMessage("one")) })
		<-c.began
		for range 10 { // more than the queue holds: some wait
			wg.Go(func() { _ = w.write(&buffer{b: make([]byte, keptBuffer/4)}) })
		}
		synctest.Wait()
		broken := errors.New("broken")
		c.permit <- broken
		wg.Wait()
		err := w.write(newMessage("two"))
		if !errors.Is(err, broken) || !c.closed || len(c.writes) > 0 {
			t.Errorf("got %v, closed %t, writes %q; want the failure and no write", err, c.closed, c.writes)
		}
	})
}

// TestWriter_KeepsLongMessagesInOnePiece: each message stays in one chunk, also while others arrive.
func TestWriter_KeepsLongMessagesInOnePiece(t *testing.T) {
	long := func(letter byte) *buffer {
		m := &buffer{b: make([]byte, 0, smallBuffer)}
		a := Response{last: m, limit: math.MaxInt64}
		for range 3 {
			_ = a.Put(append(a.Bytes(), bytes.Repeat([]byte{letter}, chunk)...))
		}
		_ = a.Put(append(a.Bytes(), "."...))
		return m
	}
	synctest.Test(t, func(t *testing.T) {
		c := newSlowConn()
		w := newWriter(c)
		var wg sync.WaitGroup
		wg.Go(func() { _ = w.write(newMessage("one")) })
		<-c.began
		if err := w.write(newMessage("two")); err != nil {
			t.Fatal(err)
		}
		if err := w.write(long('x')); err != nil {
			t.Fatal(err)
		}
		wg.Go(func() { _ = w.write(newMessage("three")) })
		synctest.Wait()
		c.permit <- nil
		finished := make(chan struct{})
		go func() {
			wg.Wait()
			close(finished)
		}()
		for more := true; more; {
			select {
			case <-c.began:
				c.permit <- nil
			case <-finished:
				more = false
			}
		}
		want := "onetwo" + strings.Repeat("x", 3*chunk) + ".three"
		if got := bytes.Join(c.writes, nil); string(got) != want {
			t.Errorf("got %d bytes, want %d bytes in the order of the messages", len(got), len(want))
		}
	})
}

// TestServer_RejectsAnAnswerAboveTheLimit: the answer is in one chunk or row by row, and the connection
// continues.
func TestServer_RejectsAnAnswerAboveTheLimit(t *testing.T) {
	limits := smallLimits()
	limits.Response = 3*chunk + 100
	l := startLimited(t, limits, 0)
	c := newPool(t, nil).At(l.addr)
	for size, want := range map[int]structs.Kind{
		100:           "",
		3 * chunk:     "",
		3*chunk + 100: structs.KindInvalid,
	} {
		got, err := Call(t.Context(), c, echoMethod, &echo{Text: strings.Repeat("x", size)})
		if structs.KindOf(err) != want || (err == nil && len(got.Text) != size) {
			t.Errorf("an answer of %d bytes got %v, want kind %q", size, err, want)
		}
	}
	a := Response{last: new(buffer), limit: limits.Response}
	puts := 0
	var err error
	for err == nil && puts < 10 {
		err = a.Put(append(a.Bytes(), make([]byte, chunk)...))
		puts++
	}
	if puts != 4 || !structs.IsKind(err, structs.KindInvalid) {
		t.Errorf("Put number %d got %v, want invalid at number 4", puts, err)
	}
}
