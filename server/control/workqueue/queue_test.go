package workqueue

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"berth/internal/backoff"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testKey is a key of tests.
func testKey(name string) Key {
	return Key{Key: [3]string{name}}
}

const testOp = "x"

// updateAll updates the keys of order that have a step.
func updateAll(q *queue, steps map[string]Step, order string, now time.Time) {
	for _, letter := range order {
		name := string(letter)
		s, ok := steps[name]
		if ok {
			s.Op = cmp.Or(s.Op, testOp)
			q.update(testKey(name), s, now)
		}
	}
}

// beginAll begins all possible steps, up to a number for each group, and names the keys in order.
func beginAll(q *queue, parallel int, now time.Time) (names string) {
	q.promoteDue(now)
	for len(q.runnable) > 0 {
		g := q.runnable[0]
		q.runnable = q.runnable[1:]
		g.listed = false
		for e := q.firstFree(g, parallel); e != nil && g.working < parallel; e = q.firstFree(g, parallel) {
			q.beginStep(e)
			names += keyText(e.key)
		}
	}
	return names
}

func sorted(s string) string {
	letters := strings.Split(s, "")
	slices.Sort(letters)
	return strings.Join(letters, "")
}

func TestQueue_BeginsStepsWithinItsBounds(t *testing.T) {
	now := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		steps map[string]Step // updated in the order of their names
		begun string          // in any order
		ended string          // of those, the ones whose rows then need nothing
		then  string          // begun after that
	}{
		"steps without a serial": {steps: map[string]Step{"a": {}, "b": {}}, begun: "ab"},
		"one step of a serial": {
			steps: map[string]Step{"a": {Serial: "s"}, "b": {Serial: "s"}},
			begun: "a",
			ended: "a",
			then:  "b",
		},
		"a step waits for its other serials": {
			steps: map[string]Step{"a": {Serial: "s"}, "b": {Serial: "g", Others: []string{"s"}}, "c": {Serial: "t"}},
			begun: "ac",
			ended: "a",
			then:  "b",
		},
		"a step waits for each of its other serials": {
			steps: map[string]Step{
				"a": {Serial: "s"},
				"b": {Serial: "t"},
				"c": {Serial: "g", Others: []string{"s", "t"}},
			},
			begun: "ab",
			ended: "a",
		},
		"the other serials wait for a step": {
			steps: map[string]Step{
				"a": {Serial: "g", Others: []string{"s", "t"}},
				"b": {Serial: "s"},
				"c": {Serial: "t"},
			},
			begun: "a",
			ended: "a",
			then:  "bc",
		},
		"two steps have one other serial": {
			steps: map[string]Step{
				"a": {Serial: "g", Others: []string{"s"}},
				"b": {Serial: "h", Others: []string{"s"}},
			},
			begun: "a",
			ended: "a",
			then:  "b",
		},
		"a step that waits for a serial keeps its position": {
			steps: map[string]Step{
				"a": {Serial: "s"},
				"b": {Serial: "g", Others: []string{"s"}},
				"c": {Serial: "s"},
			},
			begun: "a",
			ended: "a",
			then:  "b",
		},
		"by rank in a serial": {
			steps: map[string]Step{
				"a": {Serial: "s"},
				"b": {Serial: "s", Rank: 2},
				"c": {Serial: "s", Rank: 1},
			},
			begun: "a",
			ended: "a",
			then:  "c",
		},
		"a rank delays no other serial": {
			steps: map[string]Step{"a": {Serial: "s", Rank: 2}, "b": {Serial: "t"}}, begun: "ab"},
		"two steps of a group": {
			steps: map[string]Step{
				"a": {Group: "g"},
				"b": {Group: "g"},
				"c": {Group: "g"},
				"d": {Group: "h"},
			},
			begun: "abd",
			ended: "b",
			then:  "c",
		},
		"a serial belongs to its group": {
			steps: map[string]Step{"a": {Group: "g", Serial: "s"}, "b": {Group: "h", Serial: "s"}}, begun: "ab"},
		"a failed step is last": {
			steps: map[string]Step{
				"a": {Failed: true},
				"b": {},
				"c": {},
			},
			begun: "bc",
			ended: "b",
			then:  "a",
		},
		"a failed step is last in its serial": {
			steps: map[string]Step{"a": {Failed: true, Serial: "s"}, "b": {Rank: 1, Serial: "s"}},
			begun: "b",
			ended: "b",
			then:  "a",
		},
		"long steps have half of the places": {
			steps: map[string]Step{"a": {Long: true}, "b": {Long: true}, "c": {}},
			begun: "ac",
			ended: "a",
			then:  "b",
		},
		"the end of another step leaves a long one waiting": {
			steps: map[string]Step{"a": {Long: true}, "b": {Long: true}, "c": {}, "d": {}},
			begun: "ac",
			ended: "c",
			then:  "d",
		},
		"a step that awaits a signal": {
			steps: map[string]Step{"a": {Awaits: []string{"s"}}, "b": {}}, begun: "b"},
	} {
		t.Run(name, func(t *testing.T) {
			q := newQueue(backoff.Backoff{Min: time.Second, Max: time.Minute})
			updateAll(q, c.steps, "abcd", now)
			got := beginAll(q, 2, now)
			if sorted(got) != c.begun {
				t.Errorf("%q are begun, want %q", got, c.begun)
			}
			for _, letter := range c.ended {
				key := testKey(string(letter))
				q.endStep(q.entries[key], nil, now)
				q.update(key, Step{}, now)
			}
			then := beginAll(q, 2, now)
			if then != c.then {
				t.Errorf("then %q are begun, want %q", then, c.then)
			}
		})
	}
}

// A long step may be gone, or short, by the time that another one ends.
func TestQueue_BeginsLongStepsInHalfOfThePlaces(t *testing.T) {
	now := time.Unix(1000, 0)
	for places, want := range map[int]string{1: "a", 2: "a", 4: "ab", 5: "ab", 9: "abcd"} {
		q := newQueue(backoff.Backoff{})
		long := Step{Long: true}
		updateAll(q, map[string]Step{"a": long, "b": long, "c": long, "d": long}, "abcd", now)
		if got := beginAll(q, places, now); got != want {
			t.Errorf("%q are begun in %d places, want %q", got, places, want)
		}
	}

	q := newQueue(backoff.Backoff{})
	long := Step{Long: true}
	updateAll(q, map[string]Step{"a": long, "b": long, "c": long, "d": long}, "abcd", now)
	begun := beginAll(q, 2, now)
	q.update(testKey("b"), Step{}, now)
	q.update(testKey("c"), Step{Op: testOp}, now)
	begun += beginAll(q, 2, now)
	q.endStep(q.entries[testKey("a")], nil, now)
	q.update(testKey("a"), Step{}, now)
	begun += beginAll(q, 2, now)
	if begun != "acd" {
		t.Errorf("%q are begun", begun)
	}
	for _, name := range []string{"c", "d"} {
		q.endStep(q.entries[testKey(name)], nil, now)
		q.update(testKey(name), Step{}, now)
	}
	if len(q.entries)+len(q.groups) != 0 {
		t.Errorf("%d entries and %d groups are left", len(q.entries), len(q.groups))
	}
}

func TestQueue_DelaysStepsThatAreNotDueOrDidNotHelp(t *testing.T) {
	now := time.Unix(1000, 0)
	failedTwice := func(ago time.Duration) attempt {
		return attempt{
			op:     testOp,
			failed: true,
			tries:  2,
			at:     now.Add(-ago),
		}
	}
	succeeded := attempt{op: testOp, version: 1, tries: 1, at: now}
	for name, c := range map[string]struct {
		step Step
		last attempt
		want time.Duration // 0: it begins at once
	}{
		"not due":                   {step: Step{Due: now.Add(time.Hour)}, want: time.Hour},
		"failed":                    {last: failedTwice(0), want: 2 * time.Second},
		"failed long ago":           {last: failedTwice(time.Hour)},
		"failed, another operation": {step: Step{Op: "y"}, last: failedTwice(0)},
		"succeeded, the same version": {
			step: Step{Version: 1},
			last: succeeded,
			want: time.Second,
		},
		"succeeded, a newer version": {step: Step{Version: 2}, last: succeeded},
	} {
		t.Run(name, func(t *testing.T) {
			q := newQueue(backoff.Backoff{Min: time.Second, Max: time.Minute})
			a := testKey("a")
			q.entries[a] = &entry{key: a, last: c.last}
			updateAll(q, map[string]Step{"a": c.step}, "a", now)
			begun := beginAll(q, 1, now)
			if begun != "" && c.want != 0 ||
				begun == "" &&
					!q.nextDue().Equal(now.Add(c.want)) {
				t.Errorf("begun %q, next due at %s; want +%s", begun, q.nextDue(), c.want)
			}
			if got := beginAll(q, 1, now.Add(c.want)); begun+got != "a" {
				t.Errorf("after %s: begun %q", c.want, got)
			}
		})
	}
}

func TestQueue_CountsTriesThatDidNotHelp(t *testing.T) {
	now := time.Unix(1000, 0)
	failure := errors.New("failed")
	q := newQueue(backoff.Backoff{Min: time.Nanosecond, Max: time.Nanosecond})
	for i, c := range []struct {
		op      string
		version uint64
		err     error
		want    int
	}{
		{"x", 1, failure, 1},
		{"x", 2, failure, 2},
		{"x", 3, nil, 1},
		{"x", 3, nil, 2},
		{"x", 4, nil, 1},
		{"x", 5, failure, 2},
		{"y", 6, failure, 1},
	} {
		now = now.Add(time.Minute)
		q.update(testKey("a"), Step{Op: c.op, Version: c.version}, now)
		e := q.entries[testKey("a")]
		q.beginStep(e)
		q.endStep(e, c.err, now)
		if e.last.tries != c.want {
			t.Errorf("step %d: %d tries, want %d", i, e.last.tries, c.want)
		}
	}
	q.update(testKey("a"), Step{}, now)
	if len(q.entries)+len(q.groups) != 0 {
		t.Error("queue keeps a key without a step")
	}
}

// A time without a reading of the monotonic clock would come later if somebody set the wall clock back.
func TestQueue_WaitsByTheMonotonicClock(t *testing.T) {
	q := newQueue(backoff.Backoff{Min: time.Second, Max: time.Minute})
	now := time.Now()
	due := now.Add(time.Minute)
	q.update(testKey("a"), Step{Op: testOp, Due: due.Round(0)}, now)
	if got := q.nextDue(); got != due { // with the reading
		t.Errorf("due at %s, want %s", got, due)
	}
}
