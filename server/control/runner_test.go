package control

import (
	"errors"
	"testing"
	"time"

	"berth/structs"
)

func TestPick(t *testing.T) {
	now := time.Unix(1000, 0)
	retry := Backoff{First: time.Second, Most: time.Minute}
	for name, c := range map[string]struct {
		items   []item
		working []item
		past    map[string]attempt
		start   string
		wake    time.Duration
	}{
		"in order":           {items: []item{{key: "b"}, {key: "a"}}, start: "ba"},
		"in work":            {items: []item{{key: "a"}}, working: []item{{key: "a"}}},
		"one of a serial":    {items: []item{{key: "a", serial: "s"}, {key: "b", serial: "s"}}, start: "a"},
		"serial in work":     {items: []item{{key: "a", serial: "s"}, {key: "b"}}, working: []item{{key: "x", serial: "s"}}, start: "b"},
		"two of a group":     {items: []item{{key: "a", group: "g"}, {key: "b", group: "g"}, {key: "c", group: "g"}, {key: "d", group: "h"}}, start: "abd"},
		"group in work":      {items: []item{{key: "a", group: "g"}, {key: "b", group: "g"}}, working: []item{{key: "x", group: "g"}}, start: "a"},
		"not due":            {items: []item{{key: "a", due: now.Add(time.Minute)}, {key: "b", due: now.Add(time.Hour)}}, wake: time.Minute},
		"failed":             {items: []item{{key: "a"}}, past: map[string]attempt{"a": {failures: 2, err: errors.New("x"), at: now}}, wake: 2 * time.Second},
		"failed long ago":    {items: []item{{key: "a"}}, past: map[string]attempt{"a": {failures: 2, err: errors.New("x"), at: now.Add(-time.Hour)}}, start: "a"},
		"done, still listed": {items: []item{{key: "a", version: 1}}, past: map[string]attempt{"a": {version: 1, failures: 1, at: now}}, wake: time.Second},
		"done, changed":      {items: []item{{key: "a", version: 2}}, past: map[string]attempt{"a": {version: 1, failures: 1, at: now}}, start: "a"},
	} {
		t.Run(name, func(t *testing.T) {
			p := progress{working: map[string]item{}, past: c.past}
			for _, it := range c.working {
				p.working[it.key] = it
			}
			start, wake := p.pick(c.items, 2, now, retry)
			got := ""
			for _, it := range start {
				got += it.key
			}
			if got != c.start || c.wake != 0 && !wake.Equal(now.Add(c.wake)) || c.wake == 0 && !wake.IsZero() {
				t.Errorf("begins %q and wakes at %s, want %q and +%s", got, wake, c.start, c.wake)
			}
		})
	}
}

func TestFailuresAreCountedInARow(t *testing.T) {
	p := progress{working: map[string]item{}, past: map[string]attempt{}}
	end := func(version uint64, err error) int {
		p.end(ended{item{key: "a", version: version}, err}, time.Now())
		return p.past["a"].failures
	}
	for i, c := range []struct {
		version uint64
		err     error
		want    int
	}{{1, errors.New("x"), 1}, {2, errors.New("x"), 2}, {3, nil, 1}, {3, nil, 2}, {4, nil, 1}, {5, errors.New("x"), 2}} {
		if got := end(c.version, c.err); got != c.want {
			t.Errorf("step %d: %d failures, want %d", i, got, c.want)
		}
	}
	p.forget(nil)
	if len(p.past) != 0 {
		t.Error("what is no more listed is remembered")
	}
}

func TestBackoff(t *testing.T) {
	b := Backoff{First: time.Second, Most: 5 * time.Second}
	for failures, want := range []time.Duration{0, 1, 2, 4, 5, 5} {
		if got := b.After(failures); got != want*time.Second {
			t.Errorf("after %d: %s, want %s", failures, got, want*time.Second)
		}
	}
	if got := b.After(1 << 20); got != b.Most {
		t.Errorf("after very many: %s", got)
	}
	c := DefaultConfig()
	at := time.Unix(1000, 0)
	for kind, want := range map[structs.Kind]time.Duration{
		structs.KindUnavailable: c.Retry.First, structs.KindTimeout: c.Retry.First, structs.KindInternal: c.Retry.First,
		structs.KindInvalid: c.FinalRetry, structs.KindPrecondition: c.FinalRetry,
	} {
		if got := c.dueAfter(&structs.OperationError{Kind: kind, Attempts: 1, Time: at.UnixNano()}); !got.Equal(at.Add(want)) {
			t.Errorf("%s: due %s after, want %s", kind, got.Sub(at), want)
		}
	}
	if !c.dueAfter(nil).IsZero() {
		t.Error("what never failed has to wait")
	}
}
