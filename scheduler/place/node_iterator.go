package place

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"berth/scheduler/feasible"
	"berth/state"
	"berth/structs"
)

// The scheduler places an allocation on the best node of a sample of feasible nodes. The sample begins at
// another node for each evaluation. It ends when it has enough feasible nodes, or when it has read many nodes
// and some of them are feasible. So the cost of a placement does not depend on the size of the fleet, and the
// scheduler reports that nothing fits only after it has tried every node (candidates.go has the samples).
const (
	Enough       = 64  // feasible nodes of a sample
	maxSampled   = 512 // nodes that a sample reads, if one of them is feasible
	readBatch    = 32  // nodes that one read returns
	retriedNodes = 64  // nodes that an unblocked evaluation tries besides those with freed capacity
)

// source yields the nodes that may be feasible, by ID.
type source struct {
	name string                                  // equal sources have equal names
	size int                                     // about
	from func(id string) (next func() candidate) // without a node at the end
}

// sourceOf returns the smallest source that holds every feasible node of the allocation.
func (p *Placer) sourceOf(w *Placement) source {
	// Without a narrower source all nodes are candidates.
	best := p.allNodes
	if id := w.Group.Spec.OnlyNode; id != "" {
		best = listSource("node "+id, nodesWithID(p.outlook, id))
	}

	name, hosts := w.demand.Hosts.Nodes()
	if name != "" {
		return listSource(name, nodesWithID(p.outlook, hosts...))
	}

	for i := range w.demand.Uses {
		if id := w.demand.Uses[i].BoundNode(); id != "" {
			return listSource("node "+id, nodesWithID(p.outlook, id))
		}

		v := w.demand.Uses[i].Volume
		nodes, ok := nodesAt(p.outlook, v)
		if ok {
			if len(nodes) < best.size {
				best = listSource("volume "+v.Namespace+"/"+v.ID, nodes)
			}

			continue
		}

		if size := state.PluginSpread(p.outlook, v.PluginID); size < best.size {
			best = p.pluginSource(w.demand.Uses, v.PluginID)
			best.size = size
		}
	}

	return best
}

// pluginSource returns the nodes with a plugin from which its volumes of an allocation are reachable. Volumes
// with equal topologies have the same source.
func (p *Placer) pluginSource(uses []feasible.VolumeUse, plugin string) source {
	name := "plugin " + plugin
	var volumes []*structs.CSIVolume
	for i := range uses {
		v := uses[i].Volume
		if v.PluginID != plugin || len(v.Topologies) == 0 {
			continue
		}

		volumes = append(volumes, v)
		for _, t := range v.Topologies {
			name += fmt.Sprintf(" %q", t.Segments) // the keys are sorted
		}

		name += ";"
	}

	reached := func(i *structs.CSIPluginInstance) bool {
		at := i.NodeReport().AccessibleTopology
		beyond := func(v *structs.CSIVolume) bool { return !v.ReachableFrom(at) }
		return !slices.ContainsFunc(volumes, beyond)
	}

	from := func(id string) func() candidate {
		next := state.PluginNodes(p.outlook, plugin, id, reached)
		return func() candidate { return candidate{node: next()} }
	}
	return source{name: name, from: from}
}

// allNodes returns the source of all nodes. Its size is above any other.
func allNodes(tx state.Reader) source {
	from := func(id string) func() candidate {
		next := state.NodesWithUse(tx, id)
		return func() candidate {
			n, use := next()
			return candidate{node: n, use: use}
		}
	}
	return source{size: math.MaxInt, from: from}
}

// nodesAt returns the nodes from which a volume is reachable, if its topologies name them one by one.
func nodesAt(tx state.Reader, v *structs.CSIVolume) (nodes []*structs.Node, ok bool) {
	for _, t := range v.Topologies {
		at, own := state.PluginNodesAt(tx, v.PluginID, t)
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

func compareID(n *structs.Node, id string) int {
	return strings.Compare(n.ID, id)
}

// listSource returns a source of a few known nodes, sorted by ID.
func listSource(name string, nodes []*structs.Node) source {
	from := func(id string) func() candidate {
		at, _ := slices.BinarySearchFunc(nodes, id, compareID)
		left := nodes[at:]
		return func() (c candidate) {
			if len(left) > 0 {
				c.node = left[0]
				left = left[1:]
			}
			return c
		}
	}
	return source{name, len(nodes), from}
}

// cyclicIter iterates once around a source, from a node in its middle.
type cyclicIter struct {
	source
	first   string           // the ID where it begins
	next    func() candidate // continues; nil at the beginning and at the end of the source
	last    string           // the ID of the last node since then
	wrapped bool             // past the end of the source
	ended   bool
}

// readNodes returns the next few nodes, none at the end.
func (r *cyclicIter) readNodes(few int) []candidate {
	if r.ended {
		return nil
	}

	out := make([]candidate, 0, few)
	for !r.ended && len(out) < few {
		// It begins in the middle, and a second time at the start of the source.
		if r.next == nil {
			begin := r.first
			if r.wrapped {
				begin = ""
			}

			r.next = r.source.from(begin)
		}

		c := r.next()
		if c.node == nil || r.wrapped && c.node.ID >= r.first {
			// From the start there is nothing to wrap to.
			r.ended = r.wrapped || r.first == ""
			r.wrapped = true
			r.next = nil
			r.last = ""
			continue
		}

		r.last = c.node.ID
		out = append(out, c)
	}

	return out
}

// hasPassed reports whether it has read a node of the source.
func (r *cyclicIter) hasPassed(id string) bool {
	switch {
	case r.ended:
		return true
	case r.wrapped:
		return id >= r.first || id <= r.last
	}
	return id >= r.first && id <= r.last
}

// origin returns the ID from which the evaluation reads nodes. It differs between evaluations and is always
// the same for one. The origins are spread evenly if the IDs of nodes are random or numbers.
func (p *Placer) origin() string {
	if p.start != "" {
		return p.start
	}
	h := fnv.New64a()

	// A blocked evaluation has one ID for long. The index gives its next plan another sample.
	_, _ = fmt.Fprint(h, p.outlook.Eval.ID, p.outlook.Eval.SnapshotIndex)
	seed := rand.NewPCG(h.Sum64(), 0)
	if n := state.NodeFrom(p.outlook, ""); n != nil {
		p.start = randomID(p.outlook, n.ID, rand.New(seed))
	}
	return p.start
}

// randomID returns the ID of the first node with random digits. It keeps the shortest prefix for which a node
// with a greater ID exists.
func randomID(tx state.Reader, first string, random *rand.Rand) string {
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

		if state.NodeFrom(tx, string(id)) != nil {
			return string(id)
		}
	}

	return first
}

// nodesWithID returns the nodes with the IDs, as far as they exist.
func nodesWithID(tx state.Reader, ids ...string) (nodes []*structs.Node) {
	for _, id := range ids {
		if n := state.Node(tx, id); n != nil {
			nodes = append(nodes, n)
		}
	}
	return nodes
}
