package disconnect

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"berth/structs"
)

// This file checks all interleavings of events of a cluster with two nodes that runs one allocation. Its
// servers decide by Next and KeepsOriginal alone, and their plans may be out of date when they take effect.
// promises_test.go has what must hold in each state, nodes_test.go the nodes.

const (
	mostEvents = 8 // of the cluster, with any number of steps between them
	fewEvents  = 3 // of the cluster, its operators and its tasks
	mostAllocs = 5
	now        = int64(1000) // the clock of the model stands still but for the step "due"
	bound      = 100         // of lost_after and of stop_on_client_after
)

// world is the state of the model. It is comparable, so a map finds the states that were seen.
type world struct {
	nodes [2]machine
	rows  [mostAllocs]row
	used  uint8 // rows
	plan  plan  // made, and not in effect yet
	known bool  // plan is set
}

// status is one of an allocation for the servers.
type status uint8

const (
	none status = iota
	pending
	running
	unknown
	gone // structs.AllocLost
	complete
)

var words = [...]string{"", structs.AllocPending, structs.AllocRunning, structs.AllocUnknown,
	structs.AllocLost, structs.AllocComplete}

// row is an allocation: the row of the servers, and what is true on its node.
type row struct {
	status   status
	node     uint8
	stopped  bool  // the servers want it stopped
	given    bool  // an operator has given it up
	replaced bool  // another one took its place while its node was away
	claim    bool  // it has the volume
	since    uint8 // the rank of the start of its task among all
	told     bool  // its node knows it
	alive    bool  // its task runs
	ended    bool  // on its node
}

func (r *row) live() bool {
	return r.status != none && !r.stopped && r.status != gone && r.status != complete
}

// set is a set of rows.
type set uint8

func (s *set) add(i int)     { *s |= 1 << i }
func (s set) has(i int) bool { return s>>i&1 == 1 }

// plan is what a plan of the servers does.
type plan struct {
	unknown, lose, stop set
	keeps               set   // the originals whose replacement is taken back
	replaces            set   // the allocations that new ones take the place of
	places              uint8 // new allocations
	node                uint8 // of the new allocations
}

// model has the rules of a run.
type model struct {
	t         *testing.T
	rule      *structs.DisconnectStrategy
	exclusive bool           // the allocation writes a volume that has one writer
	fences    bool           // the node ends the task with its lease, and the servers then release its claim
	settled   map[world]bool // the states that became quiet as they should
}

func (m *model) isAway(w *world, i int) bool {
	r := &w.rows[i]
	return r.live() && (r.status == unknown || w.nodes[r.node].lost)
}

// decide makes a plan as the scheduler does: one place in the group.
func (m *model) decide(w *world) (p plan) {
	present := m.settle(w, &p)
	needed := present < 0
	for i := range int(w.used) {
		if !m.isAway(w, i) {
			continue
		}
		r := &w.rows[i]
		covered := present >= 0 || r.replaced
		d := Next(Alloc{
			Node:    w.nodes[r.node].forServers(),
			Status:  words[r.status],
			Given:   r.given,
			Covered: covered,
		}, m.rule, now)
		switch d.Action {
		case Lose:
			p.lose.add(i)
		case Await:
			needed = false
		case Replace:
			p.places++
		}
		if d.Action == Replace || d.Action == Lose && !covered {
			p.replaces.add(i)
		}
		if d.Action != Lose && d.Action != Keep && r.status != unknown {
			p.unknown.add(i)
		}
	}

	if needed && p.places == 0 {
		p.places = 1
	}
	free := slices.IndexFunc(w.nodes[:], func(n machine) bool { return !n.lost })
	if free < 0 || m.isHeld(w, p) {
		p.places = 0
		p.replaces = 0
		free = 0
	}
	p.node = uint8(free)
	return p
}

// settle decides on the allocations whose nodes are there, and returns the one that has the place, -1 for
// none.
func (m *model) settle(w *world, p *plan) (present int) {
	present = -1
	for i := range int(w.used) {
		r := &w.rows[i]
		switch {
		case !r.live() || m.isAway(w, i):
		case r.given:
			p.stop.add(i)
		case present < 0:
			present = i
		case !w.rows[present].replaced, KeepsOriginal(m.rule, w.rival(present), w.rival(i)):
			p.stop.add(i)
		default:
			p.stop.add(present)
			present = i
		}
	}
	if present >= 0 && w.rows[present].replaced {
		p.keeps.add(present)
	}
	return present
}

// isHeld reports whether an allocation that a plan does not end on a node that is there has the volume.
func (m *model) isHeld(w *world, p plan) bool {
	held := false
	for i := range int(w.used) {
		r := &w.rows[i]
		held = held || r.claim && (w.nodes[r.node].lost || r.live() && !p.stop.has(i))
	}
	return m.exclusive && held
}

func (w *world) rival(i int) Rival {
	r := &w.rows[i]
	return Rival{Running: r.status == running, Since: int64(r.since), Score: float64(r.node)}
}

// apply lets a plan take effect, as far as the state still admits it.
func (w *world) apply(p plan) {
	for i := range int(w.used) {
		r := &w.rows[i]
		isLost := w.nodes[r.node].lost
		switch {
		case r.status == gone || r.status == complete:
		case p.lose.has(i) || p.stop.has(i):
			r.stopped = true
			if isLost {
				r.status = gone
			}
		case p.unknown.has(i) && !r.stopped && isLost:
			r.status = unknown
		case p.keeps.has(i):
			r.replaced = false
		}
	}
	if w.nodes[p.node].lost {
		return
	}
	for range p.places {
		if w.used == mostAllocs {
			return
		}
		w.rows[w.used] = row{status: pending, node: p.node}
		w.used++
		for i := range int(w.used) {
			w.rows[i].replaced = w.rows[i].replaced || p.replaces.has(i)
		}
	}
}

// happening is an event or a step, of a node.
type happening func(m *model, w *world, node int)

// events are all that can happen to the cluster from outside.
var events = map[string]happening{
	"cut":   func(_ *model, w *world, node int) { w.nodes[node].cut = true },
	"back":  func(_ *model, w *world, node int) { w.nodes[node].cut = false; w.heartbeat(node) },
	"end":   func(m *model, w *world, node int) { m.endLease(w, node) },
	"agent": func(m *model, w *world, node int) { w.heartbeat(node); m.report(w, node) },
	"leader": func(_ *model, w *world, _ int) {
		w.plan, w.known = plan{}, false
	},
}

// rareEvents are more of them.
var rareEvents = map[string]happening{
	"off":  func(_ *model, w *world, node int) { w.proveOff(node) },
	"stop": func(_ *model, w *world, node int) { w.giveUp(node) },
	"task": func(m *model, w *world, node int) { m.restart(w, node) },
}

// withRare returns all events.
func withRare() map[string]happening {
	all := maps.Clone(events)
	maps.Copy(all, rareEvents)
	return all
}

// steps are what the servers and nodes do besides: a plan is made and takes effect, one at a time, a node
// counts as down, a claim is released, a node reports, and time passes.
var steps = map[string]happening{
	"plan":     func(m *model, w *world, _ int) { w.plan, w.known = m.decide(w), true },
	"take":     func(_ *model, w *world, _ int) { w.take() },
	"due":      func(m *model, w *world, node int) { m.pass(w, node) },
	"down":     func(_ *model, w *world, node int) { w.down(node) },
	"released": func(m *model, w *world, node int) { m.release(w, node) },
	"report":   func(m *model, w *world, node int) { m.report(w, node) },
}

func (w *world) take() {
	if w.known {
		w.apply(w.plan)
	}
	w.plan, w.known = plan{}, false
	w.tidy()
}

// quiet brings both nodes back and lets all settle.
func (m *model) quiet(w world) world {
	w.take()
	for {
		before := w
		for node := range w.nodes {
			w.nodes[node].cut = false
			w.heartbeat(node)
			m.report(&w, node)
		}
		w.apply(m.decide(&w))
		w.tidy()
		if w == before {
			return w
		}
	}
}

// origin is how the model came to a state.
type origin struct {
	from world
	by   string
}

// explore follows all that can happen from a state: those with fewer events before those with more.
func (m *model) explore(first world, events map[string]happening, most int) {
	seen := map[world]origin{first: {}}
	level := []world{first}
	for range most + 1 {
		for k := 0; k < len(level); k++ { // steps are no events, so it grows
			m.check(level[k], seen)
			level = append(level, m.follow(level[k], steps, seen)...)
		}
		var next []world
		for _, w := range level {
			next = append(next, m.follow(w, events, seen)...)
		}
		level = next
	}
}

// follow returns the new states that come next to a state.
func (m *model) follow(w world, happenings map[string]happening, seen map[world]origin) (added []world) {
	for name, happen := range happenings {
		for node := range w.nodes {
			next := w
			happen(m, &next, node)
			if _, ok := seen[next]; !ok {
				seen[next] = origin{w, fmt.Sprint(name, " ", node)}
				added = append(added, next)
			}
		}
	}
	return added
}

// pathTo returns what happened before a state, the last first.
func pathTo(w world, seen map[world]origin) (path []string) {
	for at := seen[w]; at.by != ""; at = seen[at.from] {
		path = append(path, at.by)
	}
	return path
}

// No interleaving of cuts, returns, ends of leases, restarts of agents and tasks, proofs, stops by an
// operator, changes of the leader and plans that are out of date breaks a promise.
func TestModel_HoldsInAllInterleavings(t *testing.T) {
	type rule = structs.DisconnectStrategy
	for name, c := range map[string]struct {
		rule *rule
		rare bool // with rareEvents; keep_original and keep_replacement meet the same as others there
	}{
		"no rule":              {nil, true},
		"empty":                {&rule{}, true},
		"lost after":           {&rule{LostAfter: bound}, true},
		"keep original":        {&rule{LostAfter: bound, Reconcile: structs.ReconcileKeepOriginal}, false},
		"keep replacement":     {&rule{LostAfter: bound, Reconcile: structs.ReconcileKeepReplacement}, false},
		"longest running":      {&rule{LostAfter: bound, Reconcile: structs.ReconcileLongestRunning}, true},
		"lost, no replacement": {&rule{LostAfter: bound, Replace: new(false)}, true},
		"no replacement":       {&rule{Replace: new(false)}, true},
		"stops":                {&rule{StopOnClientAfter: new(time.Duration(bound))}, true},
	} {
		for _, kind := range []string{"none", "hold", "lease"} {
			t.Run(fmt.Sprintf("%s/%s", name, kind), func(t *testing.T) {
				m := &model{t: t, rule: c.rule, exclusive: kind != "none", fences: kind == "lease",
					settled: map[world]bool{}}
				var w world
				w.apply(m.decide(&w))
				m.report(&w, 0)
				m.explore(w, events, mostEvents)
				if c.rare {
					m.explore(w, withRare(), fewEvents)
				}
			})
		}
	}
}
