package authmethod_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/internal/authmethod"
	"berth/structs"
)

// clock is a time that a test moves.
type clock struct{ now time.Time }

func newLimits() (*authmethod.AttemptLimits, *clock) {
	c := &clock{now: time.Unix(1000, 0)}
	return authmethod.NewAttemptLimits(func() time.Time { return c.now }), c
}

// fail makes attempts without success and returns the error of the last one.
func fail(l *authmethod.AttemptLimits, source string, n int) (err error) {
	for range n {
		var end func(bool)
		end, err = l.Begin(source)
		if err == nil {
			end(false)
		}
	}
	return err
}

func TestLimits_BoundTheFailuresOfASource(t *testing.T) {
	l, c := newLimits()
	if err := fail(l, "10.0.0.1", authmethod.OfSource); err != nil {
		t.Fatal(err)
	}
	err := fail(l, "10.0.0.1", 1)
	if structs.RetryAfter(err) != authmethod.SourceEvery || !strings.Contains(err.Error(),
		"from this address") {
		t.Errorf("got %v, want unavailable with a time to wait", err)
	}
	if err := fail(l, "10.0.0.2", 1); err != nil {
		t.Errorf("another source: %v", err)
	}

	c.now = c.now.Add(authmethod.SourceEvery)
	if err := fail(l, "10.0.0.1", 1); err != nil {
		t.Errorf("after the time: %v", err)
	}
	if err := fail(l, "10.0.0.1", 1); err == nil {
		t.Error("the time gives one attempt; got two")
	}
	c.now = c.now.Add(-time.Hour)
	if err := fail(l, "10.0.0.1", 1); err == nil {
		t.Error("a clock that goes back gives an attempt")
	}
}

// A system that logs in many times with success, such as a CI behind one address, is not bound by its
// failures.
func TestLimits_CountNoSuccessOfASource(t *testing.T) {
	l, c := newLimits()
	for range 5 * authmethod.OfSource {
		end, err := l.Begin("10.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		end(true)
		c.now = c.now.Add(authmethod.AllEvery)
	}
}

func TestLimits_CountNetworksAndUnknownSourcesAsOne(t *testing.T) {
	for _, sources := range [][2]string{
		{"2001:db8::1", "2001:db8::2"}, {"10.0.0.1", "::ffff:10.0.0.1"}, {"", "@"}, {"fe80::1%eth0",
			"fe80::1"},
	} {
		l, _ := newLimits()
		_ = fail(l, sources[0], authmethod.OfSource)
		if err := fail(l, sources[1], 1); err == nil {
			t.Errorf("%q is not the source %q", sources[1], sources[0])
		}
	}
	l, _ := newLimits()
	_ = fail(l, "2001:db8::1", authmethod.OfSource)
	if err := fail(l, "2001:db8:0:1::1", 1); err != nil {
		t.Errorf("another network: %v", err)
	}
}

func TestLimits_BoundAllAttempts(t *testing.T) {
	l, c := newLimits()
	for i := range authmethod.OfAll {
		if err := fail(l, fmt.Sprintf("10.0.%d.1", i), 1); err != nil {
			t.Fatal(err)
		}
	}
	err := fail(l, "10.9.0.1", 1)
	if structs.RetryAfter(err) == 0 || !strings.Contains(err.Error(), "too many logins") {
		t.Errorf("got %v, want unavailable with a time to wait", err)
	}
	c.now = c.now.Add(authmethod.AllEvery)
	if err := fail(l, "10.9.0.1", 1); err != nil {
		t.Errorf("after the time: %v", err)
	}
}

func TestLimits_BoundTheAttemptsUnderWay(t *testing.T) {
	l, _ := newLimits()
	var ends []func(bool)
	for i := range authmethod.MostAtOnce {
		end, err := l.Begin(fmt.Sprintf("10.0.%d.1", i))
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, end)
	}
	err := fail(l, "10.9.0.1", 1)
	if structs.RetryAfter(err) == 0 || !strings.Contains(err.Error(), "under way") {
		t.Errorf("got %v, want unavailable with a time to wait", err)
	}
	ends[0](true)
	if err := fail(l, "10.9.0.1", 1); err != nil {
		t.Errorf("after the end of one: %v", err)
	}
}

func TestLimits_AreSafeForManyGoroutines(t *testing.T) {
	l := authmethod.NewAttemptLimits(time.Now)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() { _ = fail(l, fmt.Sprintf("10.0.0.%d", i), 50) })
	}
	all.Wait()
	var ends []func(bool)
	for i := range authmethod.MostAtOnce {
		end, err := l.Begin(fmt.Sprintf("10.1.0.%d", i))
		if err == nil {
			ends = append(ends, end)
		}
	}
	if len(ends) == 0 {
		t.Error("after all attempts have ended, none can begin")
	}
}
