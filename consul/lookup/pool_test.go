package lookup

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"berth/structs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// source is a Source that a test scripts.
type source struct {
	mu       sync.Mutex
	answer   func(q Query, after uint64) (*Answer, error) // nil, nil waits for the next call
	afters   []uint64                                     // of all requests
	waits    []time.Duration
	inFlight int
	most     int // in flight at once
	changed  chan struct{}
}

func newSource(answer func(q Query, after uint64) (*Answer, error)) *source {
	return &source{answer: answer, changed: make(chan struct{})}
}

func (s *source) Lookup(ctx context.Context, q Query, after uint64, wait time.Duration) (*Answer, error) {
	s.mu.Lock()
	s.afters = append(s.afters, after)
	s.waits = append(s.waits, wait)
	s.inFlight++
	s.most = max(s.most, s.inFlight)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.inFlight--
	}()
	for {
		s.mu.Lock()
		answer, err := s.answer(q, after)
		changed := s.changed
		s.mu.Unlock()
		if answer != nil || err != nil {
			return answer, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// set replaces the answers.
func (s *source) set(answer func(q Query, after uint64) (*Answer, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
	close(s.changed)
	s.changed = make(chan struct{})
}

// inNow returns the requests in flight.
func (s *source) inNow() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inFlight
}

// requests returns how many were made since the last call.
func (s *source) requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.afters)
	s.afters = nil
	return n
}

// value answers with an index, once for each reader.
func value(text string, index uint64) func(Query, uint64) (*Answer, error) {
	return func(_ Query, after uint64) (*Answer, error) {
		if after == index {
			return nil, nil
		}
		return &Answer{&KeyPair{Value: text}, index}, nil
	}
}

func failing(Query, uint64) (*Answer, error) { return nil, structs.Unavailablef("rejected") }

var aKey = Query{Kind: ConsulKey, Name: "a"}

// runPool runs a pool, and returns a function that ends it.
func runPool(t *testing.T, p *Pool) func() {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		p.Run(ctx)
		close(ended)
	}()
	return func() {
		cancel()
		<-ended
	}
}

// inPool runs a test in virtual time with a pool that ends.
func inPool(t *testing.T, s *source, test func(t *testing.T, p *Pool)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s.changed = make(chan struct{}) // of the bubble
		p := New(Config{Consul: s, Logger: hclog.NewNullLogger()})
		end := runPool(t, p)
		test(t, p)
		end()
		if n := s.inNow(); n != 0 {
			t.Errorf("%d requests are in flight after the end", n)
		}
	})
}

func mustRead(t *testing.T, r *Reader, q Query) State {
	t.Helper()
	s, err := r.Read(q)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func isWoken(r *Reader) bool {
	synctest.Wait()
	select {
	case <-r.Woken():
		return true
	default:
		return false
	}
}

func checkValue(t *testing.T, r *Reader, q Query, want string) {
	t.Helper()
	s := mustRead(t, r, q)
	pair, _ := s.Value.(*KeyPair)
	if pair == nil || pair.Value != want || s.Digest == "" {
		t.Errorf("got %+v, want %q", s, want)
	}
}

func TestPool_AsksOnceForAllReaders(t *testing.T) {
	s := newSource(value("one", 1))
	inPool(t, s, func(t *testing.T, p *Pool) {
		first, second := p.NewReader(), p.NewReader()
		if got := mustRead(t, first, aKey); got.Digest != "" {
			t.Errorf("an answer before the first request: %+v", got)
		}
		mustRead(t, second, aKey)
		if !isWoken(first) || !isWoken(second) {
			t.Error("an answer woke not all readers")
		}
		checkValue(t, first, aKey, "one")
		time.Sleep(time.Hour)
		if n := s.requests(); n != 2 {
			t.Errorf("%d requests, want one and one that waits", n)
		}
		s.set(value("two", 2))
		if !isWoken(first) || !isWoken(second) {
			t.Error("another answer woke not all readers")
		}
		checkValue(t, second, aKey, "two")

		first.Keep(nil)
		time.Sleep(time.Second)
		if s.inNow() != 1 {
			t.Error("nothing follows for the second reader")
		}
		second.Keep(map[Query]bool{aKey: true})
		s.set(value("three", 3))
		if isWoken(first) || !isWoken(second) {
			t.Error("the wrong reader is woken")
		}
		second.Keep(nil)
		time.Sleep(time.Second)
		synctest.Wait()
		if n := s.inNow(); n != 0 || len(p.views) != 0 || p.kept != 0 {
			t.Errorf("%d in flight, %d views, %d bytes without a reader", n, len(p.views), p.kept)
		}
	})
}

func TestPool_WakesForAnotherAnswerAlone(t *testing.T) {
	s := newSource(value("one", 1))
	inPool(t, s, func(t *testing.T, p *Pool) {
		r := p.NewReader()
		mustRead(t, r, aKey)
		if !isWoken(r) {
			t.Error("the first answer woke nobody")
		}
		time.Sleep(time.Second)
		s.set(value("one", 2))
		time.Sleep(time.Second)
		if isWoken(r) {
			t.Error("the same answer woke the reader")
		}
	})
}

// TestPool_KeepsTheLastAnswer has a source that fails for an hour.
func TestPool_KeepsTheLastAnswer(t *testing.T) {
	s := newSource(value("one", 7))
	inPool(t, s, func(t *testing.T, p *Pool) {
		r := p.NewReader()
		mustRead(t, r, aKey)
		if !isWoken(r) {
			t.Error("the first answer woke nobody")
		}
		time.Sleep(minPause)
		s.set(failing)
		time.Sleep(time.Minute)
		s.requests()
		time.Sleep(time.Hour)
		if n := s.requests(); n < 120 || n > 160 {
			t.Errorf("%d requests in an hour", n)
		}
		if isWoken(r) {
			t.Error("an error woke the reader, who has an answer")
		}
		checkValue(t, r, aKey, "one")
		if got := mustRead(t, r, aKey); got.Err == nil {
			t.Error("the error is not shown")
		}
		var after []uint64
		s.set(func(q Query, index uint64) (*Answer, error) {
			after = append(after, index)
			return value("two", 3)(q, index)
		})
		time.Sleep(maxRetry)
		if !isWoken(r) || len(after) == 0 || after[0] != 0 {
			t.Errorf("asked for an index above %d after the errors", after)
		}
		checkValue(t, r, aKey, "two")
		if got := mustRead(t, r, aKey); got.Err != nil {
			t.Errorf("the error stays: %v", got.Err)
		}
	})
}

func TestPool_ShowsErrorsBeforeTheFirstAnswer(t *testing.T) {
	s := newSource(failing)
	inPool(t, s, func(t *testing.T, p *Pool) {
		r := p.NewReader()
		mustRead(t, r, aKey)
		if !isWoken(r) {
			t.Error("the error woke nobody")
		}
		if got := mustRead(t, r, aKey); got.Err == nil || got.Digest != "" {
			t.Errorf("got %+v", got)
		}
		time.Sleep(time.Minute)
		if isWoken(r) {
			t.Error("the same error woke the reader")
		}
		s.set(func(Query, uint64) (*Answer, error) { return nil, errors.New("denied") })
		time.Sleep(time.Minute)
		if !isWoken(r) {
			t.Error("another error woke nobody")
		}
	})
}

// A source that has lost its state counts from the beginning.
func TestPool_AsksAnewAfterALowerIndex(t *testing.T) {
	s := newSource(value("one", 10))
	inPool(t, s, func(t *testing.T, p *Pool) {
		r := p.NewReader()
		mustRead(t, r, aKey)
		time.Sleep(time.Second)
		s.set(value("two", 4))
		time.Sleep(3 * minPause)
		checkValue(t, r, aKey, "two")
		s.mu.Lock()
		defer s.mu.Unlock()
		if got := fmt.Sprint(s.afters); got != "[0 10 0 4]" {
			t.Errorf("asked for indexes above %s", got)
		}
	})
}

// A source that never waits, and gives another index each time, is asked twice a second.
func TestPool_PausesBetweenAnswers(t *testing.T) {
	index := uint64(0)
	s := newSource(func(Query, uint64) (*Answer, error) {
		index++
		return &Answer{&KeyPair{Flags: index}, index}, nil
	})
	inPool(t, s, func(t *testing.T, p *Pool) {
		mustRead(t, p.NewReader(), aKey)
		time.Sleep(time.Minute)
		if n := s.requests(); n < 100 || n > 121 {
			t.Errorf("%d requests in a minute", n)
		}
	})
}

func TestPool_BoundsRequests(t *testing.T) {
	s := newSource(nil)
	index := map[Query]uint64{}
	s.answer = func(q Query, after uint64) (*Answer, error) {
		if after == 0 {
			index[q] = 1
			return &Answer{&KeyPair{Value: q.Name}, 1}, nil
		}
		return nil, nil
	}
	inPool(t, s, func(t *testing.T, p *Pool) {
		r := p.NewReader()
		some := map[Query]bool{}
		for i := range maxRequests + 20 {
			q := Query{Kind: ConsulKey, Name: fmt.Sprint(i)}
			some[q] = true
			mustRead(t, r, q)
		}
		time.Sleep(time.Second)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.most != maxRequests || s.waits[len(s.waits)-1] != shortWait || len(index) != len(some) {
			t.Errorf("%d in flight, the last one for %s, %d answers", s.most, s.waits[len(s.waits)-1], len(index))
		}
	})
}

func TestPool_BoundsAnswers(t *testing.T) {
	s := newSource(value("one", 1))
	inPool(t, s, func(t *testing.T, p *Pool) {
		r := p.NewReader()
		mustRead(t, r, aKey)
		time.Sleep(time.Second)
		s.set(value(strings.Repeat("x", maxAnswer), 2))
		time.Sleep(time.Second)
		checkValue(t, r, aKey, "one")
		if got := mustRead(t, r, aKey); got.Err == nil || !strings.Contains(got.Err.Error(), "at most 8388608") {
			t.Errorf("got the error %v", got.Err)
		}
		p.mu.Lock()
		p.kept += maxKept
		p.mu.Unlock()
		s.set(value("two", 3))
		time.Sleep(maxRetry)
		checkValue(t, r, aKey, "one")
		if got := mustRead(t, r, aKey); got.Err == nil || !strings.Contains(got.Err.Error(), "of this node") {
			t.Errorf("got the error %v", got.Err)
		}
	})
}

func TestPool_AsksNothingAfterItsEnd(t *testing.T) {
	s := newSource(value("one", 1))
	var ended *Pool
	inPool(t, s, func(_ *testing.T, p *Pool) { ended = p })
	mustRead(t, ended.NewReader(), aKey)
	if n := s.requests(); n != 0 {
		t.Errorf("%d requests", n)
	}
}

func TestReader_NeedsASource(t *testing.T) {
	p := New(Config{Servers: newSource(failing), Logger: hclog.NewNullLogger()})
	_, err := p.NewReader().Read(aKey)
	if !structs.IsKind(err, structs.KindPrecondition) || !strings.Contains(err.Error(), "consul.address") {
		t.Errorf("got %v", err)
	}
}
