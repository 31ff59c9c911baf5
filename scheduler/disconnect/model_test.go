package disconnect

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"berth/structs"
)

// This file checks all interleavings of events of a cluster with two nodes that runs one allocation. Its
// servers decide by Next and KeepsOriginal alone, and their plans may be out of date when they take effect.

const (
	mostEvents = 8 // of the cluster, with any number of plans between them
	mostAllocs = 5
	bound      = 100 // of lost_after; the clock of the model stands still but for the event "due"
)

// world is the state of the model. It is comparable, so a map finds the states that were seen.
type world struct {
	nodes [2]machine
	rows  [mostAllocs]row
	used  int
	plan  plan // made, and not in effect yet
	known bool // plan is set
}

type machine struct {
	cut  bool  // nothing passes between the servers and the node
	lost bool  // for the servers
	down int64 // since when
}

// row is an allocation: the row of the servers, and what is true on its node.
type row struct {
	status  string // for the servers; "" for an allocation of another time
	stopped bool   // the servers want it stopped
	node    int
	next    int // the allocation that replaces it, -1 for none
	claim   bool
	alive   bool // its task runs
	told    bool // its node knows it
	ended   bool // on its node
}

func (r *row) live() bool {
	return r.status != "" && !r.stopped && r.status != structs.AllocLost && r.status != structs.AllocComplete
}

// plan is what a plan of the servers does.
type plan struct {
	unknown, lose, stop [mostAllocs]bool
	places              int // the node of a new allocation and 1, 0 for none
	replaces            int // the allocation that it replaces, -1 for none
	keeps               [mostAllocs]bool
}

// model has the rules of a run.
type model struct {
	t         *testing.T
	rule      *structs.DisconnectStrategy
	exclusive bool // the allocation writes a volume that has one writer
	fences    bool // the node ends the task at the end of its lease, and the servers then release its claim
	now       int64
	seen      map[world]int // events left when it was seen
}

func (m *model) away(w *world, i int) bool {
	r := &w.rows[i]
	return r.live() && (r.status == structs.AllocUnknown || w.nodes[r.node].lost)
}

// decide makes a plan as the scheduler does: one place in the group.
func (m *model) decide(w *world, now int64) plan {
	p := plan{replaces: -1}
	present := -1
	for i := range w.used {
		if !w.rows[i].live() || m.away(w, i) {
			continue
		}
		if present >= 0 {
			loser := present
			if KeepsOriginal(m.rule, m.rival(w, present), m.rival(w, i)) {
				loser = i
			}
			p.stop[loser] = true
			if loser == i {
				continue
			}
		}
		present = i
	}
	has := present >= 0
	if has {
		p.keeps[present] = w.rows[present].next >= 0
	}
	for i := range w.used {
		if !m.away(w, i) {
			continue
		}
		r := &w.rows[i]
		covered := present >= 0 || r.next >= 0
		n := w.nodes[r.node]
		d := Next(Alloc{Status: r.status, Covered: covered,
			Node: Node{Lost: n.lost, Since: n.down}}, m.rule, now)
		switch d.Action {
		case Lose:
			p.lose[i] = true
			if !covered {
				p.replaces = i
			}
		case Await:
			has = true
		case Replace:
			p.replaces = i
		}
		if d.Action != Lose && r.status != structs.AllocUnknown {
			p.unknown[i] = true
		}
	}
	held := false // by an allocation that the plan does not stop on a node that is there
	for i := range w.used {
		r := &w.rows[i]
		if r.claim && (w.nodes[r.node].lost || r.live() && !p.stop[i]) {
			held = true
		}
	}
	if !has && !(m.exclusive && held) {
		for node, n := range w.nodes {
			if !n.lost && p.places == 0 {
				p.places = node + 1
			}
		}
	}
	return p
}

func (m *model) rival(w *world, i int) Rival {
	return Rival{Running: w.rows[i].status == structs.AllocRunning, Since: int64(i)}
}

// apply lets a plan take effect, as far as the state still admits it.
func (m *model) apply(w *world, p plan) {
	for i := range w.used {
		r := &w.rows[i]
		switch {
		case r.status == structs.AllocLost || r.status == structs.AllocComplete:
		case p.lose[i] || p.stop[i]:
			r.stopped = true
			if w.nodes[r.node].lost {
				r.status = structs.AllocLost
			}
		case p.unknown[i] && !r.stopped && w.nodes[r.node].lost:
			r.status = structs.AllocUnknown
		case p.keeps[i]:
			r.next = -1
		}
	}
	if p.places == 0 || w.used == mostAllocs || w.nodes[p.places-1].lost {
		return
	}
	w.rows[w.used] = row{status: structs.AllocPending, node: p.places - 1, next: -1}
	if p.replaces >= 0 {
		w.rows[p.replaces].next = w.used
	}
	w.used++
}

// contact lets the servers and a node exchange all that they have to tell.
func (m *model) contact(w *world, node int) {
	if w.nodes[node].cut {
		return
	}
	w.nodes[node].lost = false
	for i := range w.used {
		r := &w.rows[i]
		if r.node != node {
			continue
		}
		if !r.told && r.live() {
			r.told = true
		}
		if r.stopped || r.status == structs.AllocLost {
			r.alive = false
			r.ended = true
		}
		if r.told && !r.ended && r.live() && !r.alive && (!m.exclusive || m.grant(w, i)) {
			r.alive = true
		}
		switch {
		case r.ended:
			r.claim = false
			if r.status != structs.AllocLost {
				r.status = structs.AllocComplete
			}
		case r.alive:
			r.status = structs.AllocRunning
		}
	}
}

func (m *model) grant(w *world, i int) bool {
	for k := range w.used {
		if k != i && w.rows[k].claim {
			return false
		}
	}
	w.rows[i].claim = true
	return true
}

// events are all that can happen in a state.
var events = map[string]func(m *model, w *world){
	"cut 0":   func(_ *model, w *world) { w.nodes[0].cut = true },
	"cut 1":   func(_ *model, w *world) { w.nodes[1].cut = true },
	"back 0":  func(m *model, w *world) { w.nodes[0].cut = false; m.contact(w, 0) },
	"back 1":  func(m *model, w *world) { w.nodes[1].cut = false; m.contact(w, 1) },
	"lease 0": func(m *model, w *world) { m.endLease(w, 0) },
	"lease 1": func(m *model, w *world) { m.endLease(w, 1) },
	"agent 0": func(m *model, w *world) { m.contact(w, 0) },
	"agent 1": func(m *model, w *world) { m.contact(w, 1) },
	"leader":  func(_ *model, w *world) { w.plan = plan{}; w.known = false },
}

// steps are what the servers do besides: a plan is made and takes effect, one at a time, and time passes.
var steps = map[string]func(m *model, w *world){
	"plan": func(m *model, w *world) { w.plan = m.decide(w, m.now); w.known = true },
	"take": func(m *model, w *world) { m.take(w) },
	"due":  func(m *model, w *world) { m.pass(w) },
}

func (m *model) take(w *world) {
	if w.known {
		m.apply(w, w.plan)
	}
	w.plan = plan{}
	w.known = false
}

// endLease ends the lease of a node that is cut off, first on the node and then on the servers.
func (m *model) endLease(w *world, node int) {
	if !w.nodes[node].cut || w.nodes[node].lost {
		return
	}
	w.nodes[node].lost = true
	w.nodes[node].down = m.now
	for i := range w.used {
		r := &w.rows[i]
		if r.node != node {
			continue
		}
		if r.stopped && r.status != structs.AllocComplete {
			r.status = structs.AllocLost
		}
		if m.fences && r.claim {
			r.alive = false
			r.ended = true
			r.claim = false
			r.stopped = true
			r.status = structs.AllocLost
		}
	}
}

// pass lets the time of lost_after pass: the nodes that are lost were lost that much earlier.
func (m *model) pass(w *world) {
	for i := range w.nodes {
		if w.nodes[i].lost {
			w.nodes[i].down = m.now - bound
		}
	}
}

// quiet brings both nodes back and lets all settle.
func (m *model) quiet(w world) world {
	m.take(&w)
	for {
		before := w
		for node := range w.nodes {
			w.nodes[node].cut = false
			m.contact(&w, node)
		}
		m.apply(&w, m.decide(&w, m.now))
		if w == before {
			return w
		}
	}
}

func (m *model) check(w world, path []string) {
	writers := 0
	for i := range w.used {
		if w.rows[i].alive {
			writers++
		}
	}
	if m.exclusive && writers > 1 {
		m.t.Fatalf("two writers after %v:\n%+v", path, w)
	}
	end := m.quiet(w)
	alive := 0
	for i := range end.used {
		r := end.rows[i]
		if r.alive {
			alive++
		}
		if r.status == structs.AllocUnknown {
			m.t.Fatalf("unknown after the quiet, and %v:\n%+v", path, end)
		}
	}
	if alive > 1 || alive == 0 && end.used < mostAllocs {
		m.t.Fatalf("%d run after the quiet, and %v:\n%+v", alive, path, end)
	}
}

// explore follows all that can happen after a path, with a number of events left.
func (m *model) explore(w world, left int, path []string) {
	if had, ok := m.seen[w]; ok && had >= left {
		return
	}
	m.seen[w] = left
	m.check(w, path)
	for name, happen := range steps {
		next := w
		happen(m, &next)
		m.explore(next, left, append(slices.Clone(path), name))
	}
	if left == 0 {
		return
	}
	for name, happen := range events {
		next := w
		happen(m, &next)
		m.explore(next, left-1, append(slices.Clone(path), name))
	}
}

// No interleaving of cuts, returns, ends of leases, restarts of agents, changes of the leader and plans that
// are out of date gives a volume two writers. When all is quiet, one allocation runs, and none is unknown.
func TestModel_HoldsInAllInterleavings(t *testing.T) {
	t.Parallel()
	rules := []structs.DisconnectStrategy{
		{},
		{LostAfter: bound},
		{LostAfter: bound, Reconcile: structs.ReconcileKeepOriginal},
		{LostAfter: bound, Reconcile: structs.ReconcileKeepReplacement},
		{LostAfter: bound, Replace: new(false)},
		{Replace: new(false)},
		{StopOnClientAfter: new(time.Duration(bound))},
	}
	for i, rule := range rules {
		for _, kind := range []string{"none", "hold", "lease"} {
			t.Run(fmt.Sprintf("%d/%s", i, kind), func(t *testing.T) {
				m := &model{t: t, rule: &rule, exclusive: kind != "none", fences: kind == "lease",
					now: 1000, seen: map[world]int{}}
				w := world{plan: plan{}}
				m.apply(&w, m.decide(&w, m.now))
				m.contact(&w, 0)
				m.explore(w, mostEvents, nil)
				t.Logf("%d states", len(m.seen))
			})
		}
	}
}
