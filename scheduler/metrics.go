package scheduler

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"berth/structs"
)

// refusal is the reason for which a filter refuses a node.
type refusal struct {
	filter    string
	reason    string
	dimension string   // of resources: which is exhausted
	keys      []string // unblock keys of changes that could remove it, besides capacity
}

// refusalCount counts the refusals of one try to place a group. Most tries count little that the try before
// them has not counted. So a count shares its maps with its clones and with the metrics of allocations, and
// copies a map before its first change.
type refusalCount struct {
	metric   structs.AllocMetric
	refusals map[[2]string]int           // filter, reason -> nodes
	listed   []*structs.PlacementRefusal // refusals in order, nil until list
	keys     map[string]bool
	owned    ownedMaps
}

// ownedMaps are the maps of a refusalCount that no other has.
type ownedMaps struct {
	refusals, keys bool
	counts         [numCounts]bool
}

// The maps in which a metric counts nodes by a name.
const (
	nodesAvailable = iota
	nodesFiltered
	classFiltered
	classExhausted
	dimensionExhausted
	numCounts
)

// noNodes is the empty count. Nothing changes it.
var noNodes = map[string]int{}

func newRefusalCount() *refusalCount {
	t := &refusalCount{}
	for _, counts := range t.counts() {
		*counts = noNodes
	}
	return t
}

// counts returns the maps in which the metric counts nodes by a name.
func (t *refusalCount) counts() [numCounts]*map[string]int {
	m := &t.metric
	return [...]*map[string]int{
		nodesAvailable:     &m.NodesAvailable,
		nodesFiltered:      &m.ConstraintFiltered,
		classFiltered:      &m.ClassFiltered,
		classExhausted:     &m.ClassExhausted,
		dimensionExhausted: &m.DimensionExhausted,
	}
}

// count adds nodes by a name to one of the counts.
func (t *refusalCount) count(in int, name string, nodes int) {
	counts := t.counts()[in]
	*counts = ownMap(*counts, &t.owned.counts[in])
	(*counts)[name] += nodes
}

// ownMap returns a map that no other has, and marks it as owned.
func ownMap[K comparable, V any](m map[K]V, owned *bool) map[K]V {
	switch {
	case *owned:
	case len(m) == 0:
		m = map[K]V{}
	default:
		m = maps.Clone(m)
	}
	*owned = true
	return m
}

// refusalCountOf returns the count of a metric, without its keys.
func refusalCountOf(m *structs.AllocMetric) *refusalCount {
	t := &refusalCount{metric: *m, refusals: map[[2]string]int{}}
	t.metric.Refusals = nil
	t.metric.CoalescedFailures = 0
	for _, r := range m.Refusals {
		t.refusals[[2]string{r.Filter, r.Reason}] = r.Nodes
	}
	return t
}

// clone returns a count that begins with the counts of t.
func (t *refusalCount) clone() *refusalCount {
	t.list()
	t.owned = ownedMaps{}
	c := *t
	return &c
}

// addKeys adds unblock keys.
func (t *refusalCount) addKeys(keys iter.Seq[string]) {
	for k := range keys {
		t.keys = ownMap(t.keys, &t.owned.keys)
		t.keys[k] = true
	}
}

// countRefusal counts a refusal under the names of the Nomad HTTP API and under berth's.
func (t *refusalCount) countRefusal(n *structs.Node, r refusal) {
	t.addRefusal(&r, 1)
	switch {
	case notCandidates[r.filter]: // the API does not count them among those evaluated
	case r.dimension != "":
		t.metric.NodesExhausted++
		t.count(dimensionExhausted, r.dimension, 1)
		t.countClass(classExhausted, n)
	default:
		t.metric.NodesFiltered++
		t.count(nodesFiltered, r.reason, 1)
		t.countClass(classFiltered, n)
	}
}

// countBlocked records a rejection by all nodes alike, none of which was tried.
func (t *refusalCount) countBlocked(r refusal) {
	t.addRefusal(&r, 0)
	t.count(nodesFiltered, r.reason, 0)
}

// addRefusal records a refusal by a number of nodes, and cuts its reason.
func (t *refusalCount) addRefusal(r *refusal, nodes int) {
	r.reason = structs.Cut(r.reason, structs.MaxReason)
	t.countReason([2]string{r.filter, r.reason}, nodes)
	t.addKeys(slices.Values(r.keys))
}

// countReason adds nodes that a filter has refused for a reason.
func (t *refusalCount) countReason(at [2]string, nodes int) {
	t.listed = nil
	t.refusals = ownMap(t.refusals, &t.owned.refusals)
	t.refusals[at] += nodes
}

func (t *refusalCount) countClass(in int, n *structs.Node) {
	if n.NodeClass != "" {
		t.count(in, n.NodeClass, 1)
	}
}

// otherReasons is the name of all reasons that a metric counts without a name.
const otherReasons = "others"

// list returns the refusals in order: most nodes first.
func (t *refusalCount) list() []*structs.PlacementRefusal {
	if len(t.listed) == len(t.refusals) {
		return t.listed
	}
	for at, nodes := range t.refusals {
		t.listed = append(t.listed, &structs.PlacementRefusal{
			Filter: at[0],
			Reason: at[1],
			Nodes:  nodes,
		})
	}
	slices.SortFunc(t.listed, func(a, b *structs.PlacementRefusal) int {
		return cmp.Or(
			b.Nodes-a.Nodes,
			cmp.Compare(a.Filter, b.Filter),
			cmp.Compare(a.Reason, b.Reason),
		)
	})
	return t.listed
}

// toMetric returns the metric with its refusals. A metric is a part of a log entry, and its texts come from
// the job and the nodes: it names at most the given number of reasons, and four times as many datacenters and
// classes.
func (t *refusalCount) toMetric(most int) *structs.AllocMetric {
	t.owned = ownedMaps{}
	m := t.metric
	m.Refusals = firstRefusals(t.list(), most)
	m.ConstraintFiltered = largestCounts(m.ConstraintFiltered, most)
	m.NodesAvailable = largestCounts(m.NodesAvailable, 4*most)
	m.ClassFiltered = largestCounts(m.ClassFiltered, 4*most)
	m.ClassExhausted = largestCounts(m.ClassExhausted, 4*most)
	return &m
}

// firstRefusals keeps the first refusals and sums up the others.
func firstRefusals(all []*structs.PlacementRefusal, most int) []*structs.PlacementRefusal {
	if len(all) <= most {
		return all
	}
	rest := &structs.PlacementRefusal{
		Filter: otherReasons,
		Reason: "further reasons, which are not named",
	}
	var kept []*structs.PlacementRefusal
	for _, r := range all {
		if len(kept) < most && r.Filter != otherReasons {
			kept = append(kept, r)
		} else {
			rest.Nodes += r.Nodes
		}
	}
	return append(kept, rest)
}

// largestCounts keeps the largest counts and sums up the others.
func largestCounts(counts map[string]int, most int) map[string]int {
	if len(counts) <= most {
		return counts
	}
	keys := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(counts[b]-counts[a], cmp.Compare(a, b))
	})
	kept := map[string]int{}
	for _, k := range keys {
		if len(kept) < most && k != otherReasons {
			kept[k] = counts[k]
		} else {
			kept[otherReasons] += counts[k]
		}
	}
	return kept
}

// metricBytes returns about the size of a metric in a log entry.
func metricBytes(m *structs.AllocMetric) int {
	size := 512
	for _, r := range m.Refusals {
		size += 32 + len(r.Filter) + len(r.Reason)
	}
	for _, counts := range []map[string]int{
		m.NodesAvailable,
		m.ClassFiltered,
		m.ConstraintFiltered,
		m.ClassExhausted,
	} {
		for k := range counts {
			size += 8 + len(k)
		}
	}
	return size + 256*len(m.ScoreMetaData)
}
