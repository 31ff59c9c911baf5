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

// The scheduler places an allocation on the best node of a sample of feasible nodes. The sample begins at
// another node for each evaluation. It ends when it has enough feasible nodes, or when it has read many nodes
// and some of them are feasible. So the cost of a placement does not depend on the size of the fleet, and the
// scheduler reports that nothing fits only after it has tried every node.
const (
	enough       = 64  // feasible nodes of a sample
	maxSampled   = 512 // nodes that a sample reads, if one of them is feasible
	readBatch    = 32  // nodes that one read returns
	retriedNodes = 64  // nodes that an unblocked evaluation tries besides those with freed capacity
)

// source yields the nodes that may be feasible, by ID.
type source struct {
	name string // equal sources have equal names
	size int    // about
	from func(id string) iter.Seq[*structs.Node]
}

// sourceOf returns the smallest source that holds every feasible node of the allocation.
func (p *planner) sourceOf(w *placement) source {
	best := source{
		size: math.MaxInt,
		from: p.nodesFrom,
	}
	if id := w.plan.only; id != "" {
		best = listSource("node "+id, p.nodesWithID(id))
	}
	for i := range w.uses {
		v := w.uses[i].volume
		nodes, ok := p.nodesAt(v)
		if ok {
			if len(nodes) < best.size {
				best = listSource("volume "+v.Namespace+"/"+v.ID, nodes)
			}
			continue
		}
		size := state.PluginSpread(p, v.PluginID)
		if size >= best.size {
			continue
		}
		best = source{
			name: "plugin " + v.PluginID,
			size: size,
			from: func(id string) iter.Seq[*structs.Node] {
				return state.PluginNodes(p, v.PluginID, id)
			},
		}
	}
	return best
}

// nodesFrom yields all nodes from an ID on.
func (p *planner) nodesFrom(id string) iter.Seq[*structs.Node] {
	return state.NodesFrom(p.ReadTx, "", state.Page{From: []string{id}})
}

// nodesAt returns the nodes from which a volume is reachable, if its topologies name them one by one.
func (p *planner) nodesAt(v *structs.CSIVolume) (nodes []*structs.Node, ok bool) {
	for _, t := range v.Topologies {
		at, own := state.PluginNodesAt(p, v.PluginID, t)
		if !own {
			return nil, false
		}
		nodes = append(nodes, at...)
	}
	slices.SortFunc(nodes, byID)
	nodes = slices.CompactFunc(nodes, func(a, b *structs.Node) bool {
		return a.ID == b.ID
	})
	return nodes, len(v.Topologies) > 0
}

func byID(a, b *structs.Node) int {
	return strings.Compare(a.ID, b.ID)
}

// listSource returns a source of a few known nodes, sorted by ID.
func listSource(name string, nodes []*structs.Node) source {
	compare := func(n *structs.Node, id string) int {
		return strings.Compare(n.ID, id)
	}
	from := func(id string) iter.Seq[*structs.Node] {
		at, _ := slices.BinarySearchFunc(nodes, id, compare)
		return slices.Values(nodes[at:])
	}
	return source{name, len(nodes), from}
}

// cyclicIter iterates once around a source, from a node in its middle.
type cyclicIter struct {
	source
	first   string // the ID where it begins
	next    string // the ID to continue from
	wrapped bool   // past the end of the source
	ended   bool
}

// readNodes returns the next few nodes, none at the end.
func (r *cyclicIter) readNodes(few int) (out []*structs.Node) {
	for !r.ended {
		for n := range r.from(r.next) {
			if r.wrapped && n.ID >= r.first {
				break
			}
			out = append(out, n)
			r.next = n.ID + "\x00"
			if len(out) == few {
				return out
			}
		}
		r.ended = r.wrapped || r.first == ""
		r.wrapped = true
		r.next = ""
	}
	return out
}

// origin returns the ID from which the evaluation reads nodes. It differs between evaluations and is always
// the same for one. The origins are spread evenly if the IDs of nodes are random or numbers.
func (p *planner) origin() string {
	if p.start != "" {
		return p.start
	}
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, p.eval.ID, p.eval.SnapshotIndex)
	seed := rand.NewPCG(h.Sum64(), 0)
	for n := range state.Nodes(p) {
		p.start = p.randomID(n.ID, rand.New(seed))
		break
	}
	return p.start
}

// randomID returns the ID of the first node with random digits. It keeps the shortest prefix for which a node
// with a greater ID exists.
func (p *planner) randomID(first string, random *rand.Rand) string {
	digits := "0123456789"
	if strings.Trim(strings.ToLower(first), "0123456789abcdef-") == "" {
		digits += "abcdef"
	}
	for kept := range len(first) {
		id := []byte(first[:kept])
		for _, c := range []byte(first[kept:] + "00000000") {
			if strings.IndexByte(digits, c) >= 0 {
				c = digits[random.IntN(len(digits))]
			}
			id = append(id, c)
		}
		for range p.nodesFrom(string(id)) {
			return string(id)
		}
	}
	return first
}

// candidateSet has the nodes of a source that a group has read.
type candidateSet struct {
	group    *groupPlan
	iter     cyclicIter
	seen     map[string]bool // by node
	full     map[string]bool // by node
	feasible []*structs.Node // passed the group's filters and not full, in the order of their trial
	chosen   []*structs.Node // feasible, with an allocation of the plan: they follow when no others are left
	refusals *refusalCount   // of seen nodes that the group's filters refused, or that are full
}

func (p *planner) candidatesOf(w *placement) *candidateSet {
	s := p.sourceOf(w)
	o := w.plan.candidateSets[s.name]
	if o == nil {
		o = &candidateSet{
			group: w.plan,
			iter: cyclicIter{
				source: s,
				first:  p.origin(),
			},
			seen:     map[string]bool{},
			full:     map[string]bool{},
			refusals: newRefusalCount(),
		}
		o.iter.next = o.iter.first
		w.plan.candidateSets[s.name] = o
	}
	return o
}

// readMore reads a few more nodes and returns their number; 0 if there are none.
func (o *candidateSet) readMore() int {
	few := o.iter.readNodes(readBatch)
	if len(few) == 0 {
		o.feasible = append(o.feasible, o.chosen...)
		o.chosen = nil
	}
	for _, n := range few {
		if o.seen[n.ID] {
			continue
		}
		o.seen[n.ID] = true
		if o.group.admit(o.refusals, n) {
			o.feasible = append(o.feasible, n)
		}
	}
	return len(few)
}

// moveToFront makes a node the next candidate.
func (o *candidateSet) moveToFront(n *structs.Node) {
	var passes bool
	if o.seen[n.ID] {
		passes = o.group.checkNode(n) == nil
	} else {
		passes = o.group.admit(o.refusals, n)
	}
	o.seen[n.ID] = true
	if !passes {
		return
	}
	same := func(other *structs.Node) bool {
		return other.ID == n.ID
	}
	o.chosen = slices.DeleteFunc(o.chosen, same)
	o.feasible = slices.DeleteFunc(o.feasible, same)
	o.feasible = slices.Insert(o.feasible, 0, n)
}

// exhausted reports whether it has read every node, and none of them is full because of the group.
func (o *candidateSet) exhausted() bool {
	return o.iter.name == "" && o.iter.ended && len(o.full) == 0
}

// trials are the results of all nodes for one allocation.
type trials struct {
	fitting []ranked
	refused []refused
}

type refused struct {
	node *structs.Node
	why  refusal
}

// tryNode adds the result of one node.
func (s *trials) tryNode(p *planner, w *placement, n *structs.Node) {
	v := p.viewOf(n)
	r := p.checkPlacement(w, v)
	if r != nil {
		s.refused = append(s.refused, refused{n, *r})
		return
	}
	s.fitting = append(s.fitting, rankNode(w, v))
}

// sampleNodes tries candidates until it has enough feasible nodes, or most nodes if most is not 0. all
// reports whether it has the results of every node.
func (p *planner) sampleNodes(w *placement, o *candidateSet, most int) (top topN, t *refusalCount, all bool) {
	var s trials
	next := 0
	tried := 0
	bound := most
	if most == 0 {
		bound = max(maxSampled, p.enough)
	}
	for len(s.fitting) < p.enough {
		mayEnd := most != 0 || len(s.fitting) > 0
		if mayEnd && tried >= bound {
			break
		}
		if next < len(o.feasible) {
			s.tryNode(p, w, o.feasible[next])
			next++
			tried++
			continue
		}
		before := len(o.feasible)
		read := o.readMore()
		added := len(o.feasible) - before
		if read == 0 && added == 0 {
			break
		}
		tried += max(0, read-added)
	}
	all = o.exhausted() && next == len(o.feasible)
	t = o.refusals.clone()
	for _, r := range s.refused {
		if !o.full[r.node.ID] {
			t.countRefusal(r.node, r.why)
		}
	}
	for _, r := range s.fitting {
		top.insert(r)
	}
	o.reorder(&s, o.feasible[next:], top)
	return top, t, all
}

// reorder sorts the candidates for the next allocation: first the other feasible nodes of this sample, then
// the untried ones, then those that rejected. The chosen node comes after all others, so that a group spreads
// over more nodes than a sample has. It drops full nodes.
func (o *candidateSet) reorder(s *trials, untried []*structs.Node, top topN) {
	feasible := make([]*structs.Node, 0, len(o.feasible))
	for _, r := range s.fitting {
		if r.view != top[0].view {
			feasible = append(feasible, r.view.node)
		}
	}
	feasible = append(feasible, untried...)
	for _, r := range s.refused {
		switch {
		case r.why.filter != filterResources && r.why.filter != filterHosts:
			feasible = append(feasible, r.node)
		case !o.full[r.node.ID]:
			o.full[r.node.ID] = true
			o.refusals.countRefusal(r.node, r.why)
		}
	}
	if len(top) > 0 {
		o.chosen = append(o.chosen, top[0].view.node)
	}
	o.feasible = feasible
}
