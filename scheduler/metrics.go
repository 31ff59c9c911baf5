package scheduler

import (
	"cmp"
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

// refusalCount counts the refusals of one try to place a group. Most tries count nothing that the try before
// them has not counted. So a count shares its maps with its clones and with the metrics of allocations, and
// own copies them before a change.
type refusalCount struct {
	metric   structs.AllocMetric
	refusals map[[2]string]int           // filter, reason -> nodes
	listed   []*structs.PlacementRefusal // refusals in order, nil until list
	keys     map[string]bool
	shared   bool // others have the maps
}

func newRefusalCount() *refusalCount {
	t := &refusalCount{
		refusals: map[[2]string]int{},
		keys:     map[string]bool{},
	}
	for _, counts := range t.counts() {
		*counts = map[string]int{}
	}
	return t
}

// counts returns the maps in which the metric counts nodes by a name.
func (t *refusalCount) counts() []*map[string]int {
	m := &t.metric
	return []*map[string]int{
		&m.NodesAvailable,
		&m.ConstraintFiltered,
		&m.ClassFiltered,
		&m.ClassExhausted,
		&m.DimensionExhausted,
	}
}

// refusalCountOf returns the count of a metric, without its keys.
func refusalCountOf(m *structs.AllocMetric) *refusalCount {
	t := newRefusalCount()
	t.shared = true
	t.metric = *m
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
	t.shared = true
	c := *t
	return &c
}

// own makes the maps those of t alone. It precedes each change of them.
func (t *refusalCount) own() {
	t.listed = nil
	if !t.shared {
		return
	}
	t.shared = false
	t.refusals = maps.Clone(t.refusals)
	t.keys = maps.Clone(t.keys)
	for _, counts := range t.counts() {
		*counts = maps.Clone(*counts)
	}
}

// countRefusal counts a refusal under the names of the Nomad HTTP API and under berth's.
func (t *refusalCount) countRefusal(n *structs.Node, r refusal) {
	t.addRefusal(&r, 1)
	switch {
	case notCandidates[r.filter]: // the API does not count them among those evaluated
	case r.dimension != "":
		t.metric.NodesExhausted++
		t.metric.DimensionExhausted[r.dimension]++
		countClass(t.metric.ClassExhausted, n)
	default:
		t.metric.NodesFiltered++
		t.metric.ConstraintFiltered[r.reason]++
		countClass(t.metric.ClassFiltered, n)
	}
}

// countBlocked records a rejection by all nodes alike, none of which was tried.
func (t *refusalCount) countBlocked(r refusal) {
	t.addRefusal(&r, 0)
	t.metric.ConstraintFiltered[r.reason] += 0
}

// addRefusal records a refusal by a number of nodes, and cuts its reason.
func (t *refusalCount) addRefusal(r *refusal, nodes int) {
	t.own()
	r.reason = structs.Cut(r.reason, structs.MaxReason)
	t.refusals[[2]string{r.filter, r.reason}] += nodes
	for _, k := range r.keys {
		t.keys[k] = true
	}
}

func countClass(m map[string]int, n *structs.Node) {
	if n.NodeClass != "" {
		m[n.NodeClass]++
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
	t.shared = true
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
