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

// refusalCount counts the refusals of one try to place a group.
type refusalCount struct {
	metric   structs.AllocMetric
	refusals map[[2]string]int // filter, reason -> nodes
	keys     map[string]bool
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
	was := &refusalCount{metric: *m}
	t.metric = was.clone().metric
	t.metric.Refusals = nil
	t.metric.CoalescedFailures = 0
	for _, r := range m.Refusals {
		t.refusals[[2]string{r.Filter, r.Reason}] = r.Nodes
	}
	return t
}

func (t *refusalCount) clone() *refusalCount {
	c := &refusalCount{
		metric:   t.metric,
		refusals: maps.Clone(t.refusals),
		keys:     maps.Clone(t.keys),
	}
	for _, counts := range c.counts() {
		*counts = maps.Clone(*counts)
	}
	return c
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

// toMetric returns the metric with its refusals in order: most nodes first. A metric is a part of a log
// entry, and its texts come from the job and the nodes: it names at most the given number of reasons, and
// four times as many datacenters and classes.
func (t *refusalCount) toMetric(most int) *structs.AllocMetric {
	m := t.clone().metric
	for at, nodes := range t.refusals {
		m.Refusals = append(m.Refusals, &structs.PlacementRefusal{
			Filter: at[0],
			Reason: at[1],
			Nodes:  nodes,
		})
	}
	slices.SortFunc(m.Refusals, func(a, b *structs.PlacementRefusal) int {
		return cmp.Or(
			b.Nodes-a.Nodes,
			cmp.Compare(a.Filter, b.Filter),
			cmp.Compare(a.Reason, b.Reason),
		)
	})
	m.Refusals = firstRefusals(m.Refusals, most)
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
