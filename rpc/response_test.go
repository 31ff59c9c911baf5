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

// slowConn accepts a write when the test demands it.
type slowConn struct {
	mu     sync.Mutex
	writes [][]byte
	began  chan struct{}
	may    chan error
	closed bool
}

func newSlowConn() *slowConn {
	return &slowConn{began: make(chan struct{}), may: make(chan error)}
}

func (c *slowConn) Write(b []byte) (int, error) {
	c.began <- struct{}{}
	if err := <-c.may; err != nil {
		return 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes = append(c.writes, bytes.Clone(b))
	return len(b), nil
}

func (c *slowConn) Close() error { c.closed = true; return nil }

func message(text string) *buffer { return &buffer{b: []byte(text)} }

func TestWriter_WritesConcurrentMessagesTogether(t *testing.T) {
	c := newSlowConn()
	w := newWriter(c)
	first := make(chan error)
	go func() { first <- w.write(message("one")) }()
	<-c.began
	for range 10 {
		if err := w.write(message("more")); err != nil {
			t.Fatal(err)
		}
	}
	c.may <- nil
	<-c.began
	c.may <- nil
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	if len(c.writes) != 2 || string(c.writes[0]) != "one" ||
		string(c.writes[1]) != string(bytes.Repeat([]byte("more"), 10)) {
		t.Errorf("written: %q", c.writes)
	}
}

// TestWriter_WaitsForACallerThatDoesNotRead: the bytes left to write have a bound, and a writer beyond it
// waits.
func TestWriter_WaitsForACallerThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newSlowConn()
		w := newWriter(c)
		var wg sync.WaitGroup
		wg.Go(func() { _ = w.write(message("one")) })
		<-c.began
		const each = keptBuffer / 4
		came := 0
		for range 10 {
			wg.Go(func() {
				_ = w.write(&buffer{b: make([]byte, each)})
				w.mu.Lock()
				defer w.mu.Unlock()
				came++
			})
		}
		synctest.Wait()
		if w.size > keptBuffer+each || came != w.size/each {
			t.Errorf("%d bytes are left, and %d of 10 went", w.size, came)
		}
		c.may <- nil
		for written := 0; written < 10*each; {
			<-c.began
			c.may <- nil
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
		wg.Go(func() { _ = w.write(message("one")) })
		<-c.began
		for range 10 { // more than may be left: some wait
			wg.Go(func() { _ = w.write(&buffer{b: make([]byte, keptBuffer/4)}) })
		}
		synctest.Wait()
		broken := errors.New("broken")
		c.may <- broken
		wg.Wait()
		if err := w.write(message("two")); !errors.Is(err, broken) || !c.closed || len(c.writes) > 0 {
			t.Errorf("%v, closed %t, written %q", err, c.closed, c.writes)
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
		wg.Go(func() { _ = w.write(message("one")) })
		<-c.began
		if err := w.write(message("two")); err != nil {
			t.Fatal(err)
		}
		if err := w.write(long('x')); err != nil {
			t.Fatal(err)
		}
		wg.Go(func() { _ = w.write(message("three")) })
		synctest.Wait()
		c.may <- nil
		finished := make(chan struct{})
		go func() { wg.Wait(); close(finished) }()
		for more := true; more; {
			select {
			case <-c.began:
				c.may <- nil
			case <-finished:
				more = false
			}
		}
		want := "onetwo" + string(bytes.Repeat([]byte("x"), 3*chunk)) + ".three"
		if got := bytes.Join(c.writes, nil); string(got) != want {
			t.Errorf("%d bytes written, want %d, or in another order", len(got), len(want))
		}
	})
}

// TestServer_RefusesAnAnswerAboveTheLimit, in one chunk or row by row, and the connection continues.
func TestServer_RefusesAnAnswerAboveTheLimit(t *testing.T) {
	limits := small()
	limits.Response = 3*chunk + 100
	l := startLimited(t, limits, 0)
	c := newPool(t, nil).At(l.addr)
	for size, want := range map[int]structs.Kind{100: "", 3 * chunk: "", 3*chunk + 100: structs.KindInvalid} {
		got, err := Call(t.Context(), c, echoMethod, &echo{Text: strings.Repeat("x", size)})
		if structs.KindOf(err) != want || (err == nil && len(got.Text) != size) {
			t.Errorf("an answer of %d bytes: %v, want %q", size, err, want)
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
		t.Errorf("%d pieces were taken: %v", puts, err)
	}
}
