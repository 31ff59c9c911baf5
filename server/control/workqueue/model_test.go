package workqueue

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"berth/internal/backoff"
)

// model is a queue that reads all of its entries for each answer.
type model struct {
	entries map[Key]*modelEntry
	arrived int
}

type modelEntry struct {
	key     Key
	step    Step
	phase   phase
	arrived int
}

func (m *model) update(key Key, s Step, now time.Time) {
	e := m.entries[key]
	if e == nil && s.Op != "" {
		m.arrived++
		e = &modelEntry{key: key, arrived: m.arrived}
		m.entries[key] = e
	}
	if e == nil || e.phase == working {
		return
	}
	was := *e
	e.step = s
	switch {
	case s.Op == "":
		delete(m.entries, key)
	case len(s.Awaits) > 0:
		e.phase = waiting
	case s.Due.After(now):
		e.phase = later
	case was.phase != ready || !s.sameOrder(was.step):
		m.makeReady(e)
	}
}

func (m *model) makeReady(e *modelEntry) {
	m.arrived++
	e.arrived = m.arrived
	e.phase = ready
}

// inPhase lists the entries of a phase, the first arrived first.
func (m *model) inPhase(p phase) (found []*modelEntry) {
	for e := range maps.Values(m.entries) {
		if e.phase == p {
			found = append(found, e)
		}
	}
	slices.SortFunc(found, func(a, b *modelEntry) int {
		return a.arrived - b.arrived
	})
	return found
}

// first finds the next entry of a group: of each serial that is not busy the best one, and of those the best
// one.
func (m *model) first(group string) (best *modelEntry) {
	serials := map[string]*modelEntry{}
	for _, e := range m.inPhase(ready) {
		if e.step.Group != group {
			continue
		}
		serial := e.step.Serial
		if serial == "" {
			serial = keyText(e.key)
		}
		before := serials[serial]
		if before == nil || before.step.Failed && !e.step.Failed ||
			before.step.Failed == e.step.Failed &&
				e.step.Rank < before.step.Rank {
			serials[serial] = e
		}
	}
	for _, e := range m.inPhase(working) {
		if e.step.Group == group {
			delete(serials, e.step.Serial)
		}
	}
	for _, e := range serials {
		if best == nil || best.step.Failed && !e.step.Failed ||
			best.step.Failed == e.step.Failed && e.arrived < best.arrived {
			best = e
		}
	}
	return best
}

// check compares the results of the queue and of the model.
func (m *model) check(t *testing.T, q *queue) {
	t.Helper()
	if len(q.entries) != len(m.entries) ||
		q.working != len(m.inPhase(working)) {
		t.Fatalf("%d entries, %d in work; the model has %d and %d", len(q.entries), q.working,
			len(m.entries), len(m.inPhase(working)))
	}
	for i := range 3 {
		name := fmt.Sprint("group", i)
		var got, want Key
		if e := m.first(name); e != nil {
			want = e.key
		}
		g := q.groups[name]
		if g != nil && g.first() != nil {
			got = g.first().key
			if !slices.Contains(q.runnable, g) {
				t.Fatalf("%s is not listed as runnable", name)
			}
		}
		if got != want {
			t.Fatalf("%v is first of %s, want %v", got, name, want)
		}
		var awaiting, modelled []Key
		for _, e := range q.awaiting(name) {
			awaiting = append(awaiting, e.key)
		}
		for _, e := range m.inPhase(waiting) {
			if slices.Contains(e.step.Awaits, name) {
				modelled = append(modelled, e.key)
			}
		}
		if !slices.Equal(awaiting, modelled) {
			t.Fatalf("%v await %s, want %v", awaiting, name, modelled)
		}
	}
	var due time.Time
	for _, e := range m.inPhase(later) {
		if due.IsZero() || e.step.Due.Before(due) {
			due = e.step.Due
		}
	}
	if !q.nextDue().Equal(due) {
		t.Fatalf("the next is due at %s, want %s", q.nextDue(), due)
	}
}

func TestQueue_EqualsItsModel(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			q := newQueue(backoff.Backoff{Min: time.Second, Max: time.Second})
			m := &model{entries: map[Key]*modelEntry{}}
			now := time.Unix(1000, 0)
			for version := range uint64(3000) {
				key := testKey(fmt.Sprint("key", random.IntN(30)))
				switch random.IntN(4) {
				case 0, 1:
					s := randomStep(random, now)
					s.Version = version
					q.update(key, s, now)
					m.update(key, s, now)
				case 2:
					beginOrEnd(q, m, key, now)
				case 3:
					now = now.Add(time.Duration(random.IntN(1000)) * time.Millisecond)
					q.promoteDue(now)
					m.promoteDue(now)
				}
				m.check(t, q)
			}
			for key := range m.entries {
				if m.entries[key].phase == working {
					beginOrEnd(q, m, key, now)
				}
				q.update(key, Step{}, now)
			}
			if len(q.entries)+len(q.groups)+len(q.waiting)+q.later.Len() != 0 {
				t.Error("queue keeps keys without a step")
			}
		})
	}
}

// beginOrEnd ends the step of a key in work, or begins the step of a key that is next.
func beginOrEnd(q *queue, m *model, key Key, now time.Time) {
	e := m.entries[key]
	switch {
	case e == nil:
	case e.phase == working:
		e.phase = noPhase
		q.endStep(q.entries[key], nil, now)
		s := e.step
		s.Version++ // the step has changed its rows
		q.update(key, s, now)
		m.update(key, s, now)
	case m.first(e.step.Group) == e:
		e.phase = working
		q.beginStep(q.entries[key])
	}
}

// promoteDue makes the due keys ready, the earliest first.
func (m *model) promoteDue(now time.Time) {
	entries := m.inPhase(later)
	slices.SortStableFunc(entries, func(a, b *modelEntry) int {
		return a.step.Due.Compare(b.step.Due)
	})
	for _, e := range entries {
		if !e.step.Due.After(now) {
			m.makeReady(e)
		}
	}
}

func randomStep(random *rand.Rand, now time.Time) Step {
	if random.IntN(5) == 0 {
		return Step{}
	}
	s := Step{
		Op:     testOp,
		Group:  fmt.Sprint("group", random.IntN(3)),
		Rank:   random.IntN(3),
		Failed: random.IntN(4) == 0,
	}
	if random.IntN(2) == 0 {
		s.Serial = fmt.Sprint("serial", random.IntN(4))
	}
	switch random.IntN(6) {
	case 0:
		s.Due = now.Add(time.Duration(random.Int64N(int64(time.Second))))
	case 1:
		s.Awaits = []string{fmt.Sprint("group", random.IntN(3)), fmt.Sprint("group", random.IntN(3))}
	}
	return s
}
