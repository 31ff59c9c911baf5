package disconnect

import (
	"berth/structs"
)

// This file has what Next and KeepsOriginal promise, in the words of a state before and after a plan that is
// made of it and takes effect at once.

// change is a plan and its effect.
type change struct {
	*model
	before, after world
	plan          plan
}

// promises are checked of each change.
var promises = []struct {
	text  string
	holds func(c *change) bool
}{
	{"a live allocation of a node that is down is unknown", (*change).awayAreUnknown},
	{"none is unknown there without a rule, after its bound, or without a chance", (*change).hopelessAreLost},
	{"an allocation is not lost before its bound", (*change).othersStay},
	{"nothing takes the place of one that is unknown unless the rule says so", (*change).unknownIsAwaited},
	{"one that is unknown is replaced at once if the rule says so", (*change).unknownIsReplaced},
	{"one that is unknown is replaced once", (*change).replacedOnce},
	{"no plan ends what a node that is back has not reported", (*change).backIsAwaited},
	{"nothing that runs is stopped while nothing else runs", (*change).oneRuns},
	{"of an original and its replacement the right one stays", (*change).rightOneStays},
}

// check checks a state, what a fresh plan makes of it, and what it becomes when all is quiet.
func (m *model) check(w world, seen map[world]origin) {
	if m.exclusive && w.alive() > 1 {
		m.t.Fatalf("two writers after %q:\n%+v", pathTo(w, seen), w)
	}

	c := change{model: m, before: w, after: w}
	c.before.plan, c.before.known = plan{}, false
	c.after = c.before
	c.plan = m.decide(&w)
	c.after.apply(c.plan)
	for _, p := range promises {
		if !p.holds(&c) {
			m.t.Fatalf("it does not hold that %s, after %q:\n%+v\n%+v", p.text, pathTo(w, seen), c.before, c.after)
		}
	}

	w.take()
	if m.settled[w] {
		return
	}
	m.settled[w] = true
	end := m.quiet(w)
	if n := end.alive(); n != 1 {
		m.t.Fatalf("%d run after the quiet, of %+v:\n%+v", n, w, end)
	}
	for _, r := range end.rows {
		if r.status == unknown {
			m.t.Fatalf("unknown after the quiet, of %+v:\n%+v", w, end)
		}
	}
}

func (w *world) alive() (n int) {
	for _, r := range w.rows {
		if r.alive {
			n++
		}
	}
	return n
}

// each reports whether a condition holds for all allocations that were live before the change.
func (c *change) each(holds func(before, after *row) bool) bool {
	for i := range int(c.before.used) {
		if c.before.rows[i].live() && !holds(&c.before.rows[i], &c.after.rows[i]) {
			return false
		}
	}
	return true
}

func (c *change) node(r *row) machine { return c.before.nodes[r.node] }

func (c *change) awayAreUnknown() bool {
	return c.each(func(_, after *row) bool {
		return !after.live() || !c.node(after).lost || after.status == unknown
	})
}

// isHopeless reports whether an allocation of a node that is down has to be lost.
func (c *change) isHopeless(r *row) bool {
	n := c.node(r)
	switch {
	case c.rule == nil, n.off, r.given, r.status == pending:
		return true
	case c.rule.StopOnClientAfter == nil && c.rule.LostAfter == 0:
		return c.replaces() // there is no other rule
	}
	return n.due && (c.replaces() || c.rule.LostAfter > 0)
}

func (c *change) replaces() bool {
	return c.rule != nil && (c.rule.Replace == nil || *c.rule.Replace)
}

func (c *change) hopelessAreLost() bool {
	return c.each(func(before, after *row) bool {
		return !c.node(before).lost || !c.isHopeless(before) || after.status == gone
	})
}

func (c *change) othersStay() bool {
	return c.each(func(before, after *row) bool {
		return !c.node(before).lost || c.isHopeless(before) || after.status == unknown && !after.stopped
	})
}

func (c *change) unknownIsAwaited() bool {
	replacesAtOnce := c.replaces() && c.rule.LostAfter > 0
	return replacesAtOnce || c.after.used == c.before.used || c.each(func(_, after *row) bool {
		return after.status != unknown || !after.live()
	})
}

func (c *change) unknownIsReplaced() bool {
	free := false
	for _, n := range c.before.nodes {
		free = free || !n.lost
	}
	if !c.replaces() || c.rule.LostAfter == 0 || c.exclusive || !free || c.before.used == mostAllocs {
		return true
	}
	return c.after.used > c.before.used || !c.each(func(before, _ *row) bool { return c.node(before).lost })
}

func (c *change) replacedOnce() bool {
	for i := range int(c.before.used) {
		if c.plan.replaces.has(i) && (c.before.rows[i].replaced || c.hasPresent()) {
			return false
		}
	}
	return true
}

// hasPresent reports whether an allocation has its place on a node that is there, and stays.
func (c *change) hasPresent() bool {
	return !c.each(func(before, _ *row) bool {
		return before.given || c.node(before).lost || before.status == unknown
	})
}

func (c *change) backIsAwaited() bool {
	return c.each(func(before, after *row) bool {
		return before.status != unknown || c.node(before).lost || after.status == unknown && !after.stopped
	})
}

// oneRuns excepts what an operator stops.
func (c *change) oneRuns() bool {
	runs := !c.each(func(_, after *row) bool {
		return !after.live() || after.status != running || c.node(after).lost
	})
	return runs || c.each(func(before, after *row) bool {
		return before.given || before.status != running || c.node(before).lost || !after.stopped
	})
}

// rightOneStays is about two that run on nodes that are there, the first of which was replaced.
func (c *change) rightOneStays() bool {
	var pair []int
	for i := range int(c.before.used) {
		r := &c.before.rows[i]
		if r.live() && !r.given && !c.isAway(&c.before, i) {
			pair = append(pair, i)
		}
	}
	if len(pair) != 2 {
		return true
	}
	original, replacement := &c.before.rows[pair[0]], &c.before.rows[pair[1]]
	stays, stops := &c.after.rows[pair[0]], &c.after.rows[pair[1]]
	if original.replaced && original.status == running && replacement.status == running &&
		!c.prefers(original, replacement) {
		stays, stops = stops, stays
	}
	return stays.live() && stops.stopped
}

// prefers reports whether the rule keeps the original of two that run.
func (c *change) prefers(original, replacement *row) bool {
	switch c.rule.Reconcile {
	case structs.ReconcileKeepOriginal:
		return true
	case structs.ReconcileKeepReplacement:
		return false
	case structs.ReconcileLongestRunning:
		return original.since < replacement.since
	}
	return original.node >= replacement.node // the second node has the better score
}
