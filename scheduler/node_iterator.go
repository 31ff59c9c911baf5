package scheduler

import (
	"fmt"
	"hash/fnv"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"berth/state"
	"berth/structs"
)

// An allocation is placed on the best of a sample of the nodes that would take it: the sample begins anywhere,
// another place for each evaluation, and ends when enough nodes would take it, or when many were looked at and some
// of them would. So the cost of placing does not depend on the size of the fleet; and that nothing fits is said
// only when every node was asked.
const (
	enough   = 64
	patience = 512
	stride   = 32 // nodes are read so many at a time
	stretch  = 64 // nodes that are asked again by who asked all, beside those with more room since
)

// source is where nodes are taken from: those that may do, by ID, from one on.
type source struct {
	name string // of equal ones
	size int    // about
	from func(id string) iter.Seq[*structs.Node]
}

// sourceOf is the smallest of the sources that hold every node that may take the allocation.
func (p *planner) sourceOf(w *want) source {
	best := source{"", math.MaxInt, func(id string) iter.Seq[*structs.Node] { return state.NodesFrom(p.tx, "", []string{id}) }}
	if id := w.plan.only; id != "" {
		n := state.Node(p.tx, id)
		best = listed("node "+id, slices.DeleteFunc([]*structs.Node{n}, func(n *structs.Node) bool { return n == nil }))
	}
	for i := range w.uses {
		v := w.uses[i].volume
		if there, ok := p.nodesAt(v); ok && len(there) < best.size {
			best = listed("volume "+v.Namespace+"/"+v.ID, there)
		} else if size := state.PluginSpread(p.tx, v.PluginID); !ok && size < best.size {
			best = source{"plugin " + v.PluginID, size, func(id string) iter.Seq[*structs.Node] { return state.PluginNodes(p.tx, v.PluginID, id) }}
		}
	}
	return best
}

// nodesAt are the nodes that a volume is reachable from, where its topologies name them one by one.
func (p *planner) nodesAt(v *structs.CSIVolume) (there []*structs.Node, ok bool) {
	for _, t := range v.Topologies {
		at, own := state.PluginNodesAt(p.tx, v.PluginID, t)
		if !own {
			return nil, false
		}
		there = append(there, at...)
	}
	slices.SortFunc(there, func(a, b *structs.Node) int { return strings.Compare(a.ID, b.ID) })
	return slices.CompactFunc(there, func(a, b *structs.Node) bool { return a.ID == b.ID }), len(v.Topologies) > 0
}

// listed is a source of few nodes that are known, by ID.
func listed(name string, nodes []*structs.Node) source {
	return source{name, len(nodes), func(id string) iter.Seq[*structs.Node] {
		at, _ := slices.BinarySearchFunc(nodes, id, func(n *structs.Node, id string) int { return strings.Compare(n.ID, id) })
		return slices.Values(nodes[at:])
	}}
}

// ring goes once around a source.
type ring struct {
	source
	first   string // the ID where it begins
	next    string // the ID to go on from
	wrapped bool   // past the end of the source
	ended   bool
}

// read returns the next few nodes, none when it has been all around.
func (r *ring) read(few int) (out []*structs.Node) {
	for !r.ended && len(out) < few {
		full := false
		for n := range r.from(r.next) {
			if r.wrapped && n.ID >= r.first {
				break
			}
			out, r.next = append(out, n), n.ID+"\x00"
			if full = len(out) == few; full {
				break
			}
		}
		switch {
		case full:
		case r.wrapped || r.first == "":
			r.ended = true
		default:
			r.wrapped, r.next = true, ""
		}
	}
	return out
}

// origin is the ID from which the evaluation looks at nodes: each begins elsewhere, and the same always at the
// same. Those of evaluations are spread evenly where nodes' IDs are random, or are numbered.
func (p *planner) origin() string {
	if p.start != "" {
		return p.start
	}
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, p.eval.ID, p.eval.SnapshotIndex)
	chance := rand.New(rand.NewPCG(h.Sum64(), 0))
	for n := range state.Nodes(p.tx) {
		p.start = p.anywhere(n.ID, chance)
		break
	}
	return p.start
}

// anywhere is an ID like that of the first node, but with other digits: so many of its first ones left as they
// are that there is a node behind it.
func (p *planner) anywhere(first string, chance *rand.Rand) string {
	digits := "0123456789"
	if strings.Trim(strings.ToLower(first), "0123456789abcdef-") == "" {
		digits += "abcdef"
	}
	for kept := range len(first) {
		id := []byte(first[:kept])
		for _, c := range []byte(first[kept:] + "00000000") {
			if strings.IndexByte(digits, c) >= 0 {
				c = digits[chance.IntN(len(digits))]
			}
			id = append(id, c)
		}
		for range state.NodesFrom(p.tx, "", []string{string(id)}) {
			return string(id)
		}
	}
	return first
}

// pool is what a group knows of the nodes of a source, as far as it has been looked at.
type pool struct {
	group *groupPlan
	ring  ring
	known map[string]bool // by node: looked at
	spent map[string]bool // by node: full
	fit   []*structs.Node // let through by the group's filters and not full, in the order in which they are asked
	taken []*structs.Node // such, that the plan places the group on: they come again when there are no others
	tally *tally          // of those looked at: refused by the group's filters, or full
}

func (p *planner) poolOf(w *want) *pool {
	s := p.sourceOf(w)
	o := w.plan.pools[s.name]
	if o == nil {
		o = &pool{group: w.plan, ring: ring{source: s, first: p.origin()}, known: map[string]bool{}, spent: map[string]bool{}, tally: newTally()}
		o.ring.next = o.ring.first
		if w.plan.pools == nil {
			w.plan.pools = map[string]*pool{}
		}
		w.plan.pools[s.name] = o
	}
	return o
}

// more looks at a few more nodes and returns how many; 0 when there are none.
func (o *pool) more() int {
	few := o.ring.read(stride)
	if len(few) == 0 {
		o.fit, o.taken = append(o.fit, o.taken...), nil
	}
	for _, n := range few {
		if !o.known[n.ID] && o.group.sorted(o.tally, n) {
			o.fit = append(o.fit, n)
		}
		o.known[n.ID] = true
	}
	return len(few)
}

// ahead makes a node the next to be asked.
func (o *pool) ahead(n *structs.Node) {
	if !o.known[n.ID] && !o.group.sorted(o.tally, n) || o.known[n.ID] && o.group.refuses(n) != nil {
		o.known[n.ID] = true
		return
	}
	o.known[n.ID] = true
	same := func(other *structs.Node) bool { return other.ID == n.ID }
	o.fit, o.taken = slices.Insert(slices.DeleteFunc(o.fit, same), 0, n), slices.DeleteFunc(o.taken, same)
}

// whole reports whether every node there is has been looked at, and none of them is full because of the group.
func (o *pool) whole() bool { return o.ring.name == "" && o.ring.ended && len(o.spent) == 0 }

// answers are what nodes said to one allocation.
type answers struct {
	takers  []ranked
	refused []refused
}

type refused struct {
	node *structs.Node
	why  refusal
}

// ask asks one node.
func (s *answers) ask(p *planner, w *want, n *structs.Node) {
	v := p.view(n)
	if r := p.refuses(w, v); r != nil {
		s.refused = append(s.refused, refused{n, *r})
		return
	}
	s.takers = append(s.takers, rank(w, v))
}

// best are the best of those that would take it.
func (s *answers) best() (top podium) {
	for _, r := range s.takers {
		top.add(r)
	}
	return top
}

// sample asks nodes of a pool until it has answers enough; where most is not 0, of no more nodes than that. all is
// whether these are the answers of every node.
func (p *planner) sample(w *want, o *pool, most int) (top podium, t *tally, all bool) {
	var s answers
	next, looked, bound := 0, 0, most
	if most == 0 {
		bound = max(patience, p.enough)
	}
	for len(s.takers) < p.enough && (len(s.takers) == 0 && most == 0 || looked < bound) {
		if next < len(o.fit) {
			s.ask(p, w, o.fit[next])
			next++
			looked++
			continue
		}
		before := len(o.fit)
		read := o.more()
		if read == 0 && before == len(o.fit) {
			break
		}
		looked += max(0, read-(len(o.fit)-before))
	}
	all = o.whole() && next == len(o.fit)
	t = o.tally.clone()
	for _, r := range s.refused {
		if !o.spent[r.node.ID] {
			t.refuse(r.node, r.why)
		}
	}
	top = s.best()
	o.arrange(&s, o.fit[next:], top)
	return top, t, all
}

// arrange puts nodes in the order in which the next allocation asks them: those that would have taken this one;
// those that were not asked; those that refused. The one that takes it comes again after all others, so that a group
// is not confined to as many nodes as a sample has. Full ones are asked no more, but by who finds no place elsewhere.
func (o *pool) arrange(s *answers, unasked []*structs.Node, top podium) {
	fit := make([]*structs.Node, 0, len(o.fit))
	for _, r := range s.takers {
		if r.view != top[0].view {
			fit = append(fit, r.view.node)
		}
	}
	fit = append(fit, unasked...)
	for _, r := range s.refused {
		switch full := r.why.filter == filterResources || r.why.filter == filterHosts; {
		case !full:
			fit = append(fit, r.node)
		case !o.spent[r.node.ID]:
			o.spent[r.node.ID] = true
			o.tally.refuse(r.node, r.why)
		}
	}
	if len(top) > 0 {
		o.taken = append(o.taken, top[0].view.node)
	}
	o.fit = fit
}
