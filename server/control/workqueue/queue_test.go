package workqueue

import (
	"cmp"
	"errors"
	"slices"
	"testing"
	"time"

	"berth/internal/backoff"
)

// named are keys of tests.
type named string

func (n named) String() string { return string(n) }

func (q *queue[K]) failedBefore(key K, a attempt) {
	q.entries[key] = &entry[K]{key: key, past: a}
}

// begun puts steps, begins what can be begun of up to two in each group, and names it in order.
func begun(q *queue[named], steps map[named]Step, order string, now time.Time) (names string, wake time.Time) {
	for _, k := range order {
		if s, ok := steps[named(k)]; ok {
			q.put(named(k), s, now)
		}
	}
	q.ripen(now)
	for len(q.hungry) > 0 {
		g := q.hungry[0]
		q.hungry, g.hungry = q.hungry[1:], false
		for e := g.first(); e != nil && g.working < 2; e = g.first() {
			q.begin(e)
			names += e.key.String()
		}
	}
	return names, q.nextDue()
}

func TestWhatIsBegun(t *testing.T) {
	now := time.Unix(1000, 0)
	failed := func(n int, at time.Time) attempt { return attempt{op: "x", failures: n, err: errors.New("x"), at: at} }
	for name, c := range map[string]struct {
		steps map[named]Step // put in the order of their names
		past  map[named]attempt
		ended string // of what is begun, those whose rows then ask for nothing
		start string
		then  string // begun after that
		wake  time.Duration
	}{
		"in order":             {steps: map[named]Step{"a": {}, "b": {}}, start: "ab"},
		"one of a serial":      {steps: map[named]Step{"a": {Serial: "s"}, "b": {Serial: "s"}}, start: "a", ended: "a", then: "b"},
		"by rank in a serial":  {steps: map[named]Step{"a": {Serial: "s"}, "b": {Serial: "s", Rank: 2}, "c": {Serial: "s", Rank: 1}}, start: "a", ended: "a", then: "c"},
		"ranks hold up nobody": {steps: map[named]Step{"a": {Serial: "s", Rank: 2}, "b": {Serial: "t"}}, start: "ab"},
		"two of a group": {steps: map[named]Step{"a": {Group: "g"}, "b": {Group: "g"}, "c": {Group: "g"}, "d": {Group: "h"}},
			start: "abd", ended: "b", then: "c"},
		"a serial in two groups": {steps: map[named]Step{"a": {Group: "g", Serial: "s"}, "b": {Group: "h", Serial: "s"}, "c": {Group: "h"}},
			start: "ac", ended: "a", then: "b"},
		"a full group does not hold up another through a serial": {
			steps: map[named]Step{"a": {Group: "g"}, "b": {Group: "g"}, "c": {Group: "g", Serial: "s"}, "d": {Group: "h", Serial: "s"}}, start: "abd"},
		"what failed is last":   {steps: map[named]Step{"a": {Failed: true}, "b": {}, "c": {}}, start: "bc", ended: "b", then: "a"},
		"failed in a serial":    {steps: map[named]Step{"a": {Failed: true, Serial: "s"}, "b": {Rank: 1, Serial: "s"}}, start: "b", ended: "b", then: "a"},
		"not due":               {steps: map[named]Step{"a": {Due: now.Add(time.Minute)}, "b": {Due: now.Add(time.Hour)}}, wake: time.Minute},
		"failed":                {steps: map[named]Step{"a": {}}, past: map[named]attempt{"a": failed(2, now)}, wake: 2 * time.Second},
		"failed long ago":       {steps: map[named]Step{"a": {}}, past: map[named]attempt{"a": failed(2, now.Add(-time.Hour))}, start: "a"},
		"failed, now another":   {steps: map[named]Step{"a": {Op: "y"}}, past: map[named]attempt{"a": failed(2, now)}, start: "a"},
		"done, still asked for": {steps: map[named]Step{"a": {Version: 1}}, past: map[named]attempt{"a": {op: "x", version: 1, failures: 1, at: now}}, wake: time.Second},
		"done, changed":         {steps: map[named]Step{"a": {Version: 2}}, past: map[named]attempt{"a": {op: "x", version: 1, failures: 1, at: now}}, start: "a"},
		"awaits a signal":       {steps: map[named]Step{"a": {Awaits: []string{"s"}}, "b": {}}, start: "b"},
	} {
		t.Run(name, func(t *testing.T) {
			q := newQueue[named](backoff.Backoff{Min: time.Second, Max: time.Minute})
			for key, a := range c.past {
				q.failedBefore(key, a)
			}
			for key, s := range c.steps {
				s.Op = cmp.Or(s.Op, "x")
				c.steps[key] = s
			}
			got, wake := begun(q, c.steps, "abcd", now)
			if sorted(got) != sorted(c.start) || c.wake != 0 && !wake.Equal(now.Add(c.wake)) || c.wake == 0 && !wake.IsZero() {
				t.Errorf("begins %q and wakes at %s, want %q and +%s", got, wake, c.start, c.wake)
			}
			for _, k := range c.ended {
				q.end(q.entries[named(k)], attempt{op: "x", failures: 1, at: now})
				q.put(named(k), Step{}, now)
			}
			if got, _ = begun(q, nil, "", now); got != c.then {
				t.Errorf("begins %q then, want %q", got, c.then)
			}
		})
	}
}

func sorted(s string) string {
	all := []byte(s)
	slices.Sort(all)
	return string(all)
}

func TestFailuresAreCountedInARow(t *testing.T) {
	now := time.Unix(1000, 0)
	q := newQueue[named](backoff.Backoff{Min: time.Nanosecond, Max: time.Nanosecond})
	for i, c := range []struct {
		op      string
		version uint64
		err     error
		want    int
	}{{"x", 1, errors.New("x"), 1}, {"x", 2, errors.New("x"), 2}, {"x", 3, nil, 1}, {"x", 3, nil, 2}, {"x", 4, nil, 1}, {"x", 5, errors.New("x"), 2},
		{"y", 6, errors.New("x"), 1}} {
		now = now.Add(time.Minute)
		e := q.put("a", Step{Op: c.op, Version: c.version}, now)
		q.begin(e)
		if q.end(e, attempt{op: c.op, version: c.version, failures: 1, err: c.err, at: now}); e.past.failures != c.want {
			t.Errorf("step %d: %d failures, want %d", i, e.past.failures, c.want)
		}
	}
	q.put("a", Step{}, now)
	if len(q.entries)+len(q.groups)+len(q.serials) != 0 {
		t.Error("what is no more asked for is remembered")
	}
}
