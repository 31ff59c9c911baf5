// Package rejects counts the nodes that reject an allocation, by filter and reason. The counts become the
// metrics of allocations and of evaluations that found no place.
package rejects

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"berth/structs"
)

// Rejection is the reason for which a filter rejects a node.
type Rejection struct {
	Filter    string
	Reason    string
	Dimension string   // of resources: which is exhausted
	Keys      []string // unblock keys of changes that could remove it, besides capacity
}

// Count counts the rejections of one try to place a group. Most tries count little that the try before
// them has not counted. So a count shares its maps with its clones and with the metrics of allocations, and
// copies a map before its first change.
type Count struct {
	Metric     structs.AllocMetric
	rejections map[[2]string]int             // filter, reason -> nodes
	listed     []*structs.PlacementRejection // rejections in order, nil until list
	Keys       map[string]bool
	owned      ownedMaps
}

// ownedMaps are the maps of a Count that no other has.
type ownedMaps struct {
	rejections, keys bool
	counts           [numCounts]bool
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

// NewCount returns a count of no nodes.
func NewCount() *Count {
	t := &Count{}
	for _, counts := range t.counts() {
		*counts = noNodes
	}
	return t
}

// counts returns the maps in which the metric counts nodes by a name.
func (t *Count) counts() [numCounts]*map[string]int {
	m := &t.Metric
	return [...]*map[string]int{
		nodesAvailable:     &m.NodesAvailable,
		nodesFiltered:      &m.ConstraintFiltered,
		classFiltered:      &m.ClassFiltered,
		classExhausted:     &m.ClassExhausted,
		dimensionExhausted: &m.DimensionExhausted,
	}
}

// count adds nodes by a name to one of the counts.
func (t *Count) count(in int, name string, nodes int) {
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

// CountOf returns the count of a metric, without its keys.
func CountOf(m *structs.AllocMetric) *Count {
	t := &Count{Metric: *m, rejections: map[[2]string]int{}}
	t.Metric.Rejections = nil

	// The new plan counts its own failures.
	t.Metric.CoalescedFailures = 0
	for _, r := range m.Rejections {
		t.rejections[[2]string{r.Filter, r.Reason}] = r.Nodes
	}

	return t
}

// Clone returns a count that begins with the counts of t.
func (t *Count) Clone() *Count {
	// The list is made before the copy, so that clones share it: most add nothing to it.
	t.list()
	t.owned = ownedMaps{}
	c := *t
	return &c
}

// AddKeys adds unblock keys.
func (t *Count) AddKeys(keys iter.Seq[string]) {
	for k := range keys {
		t.Keys = ownMap(t.Keys, &t.owned.keys)
		t.Keys[k] = true
	}
}

// AddRejection counts a rejection under the names of the Nomad HTTP API and under berth's.
func (t *Count) AddRejection(n *structs.Node, r Rejection) {
	t.addRejection(&r, 1)
	switch {
	case notCandidates[r.Filter]: // the API does not count them among those evaluated
	case r.Dimension != "":
		t.Metric.NodesExhausted++
		t.count(dimensionExhausted, r.Dimension, 1)
		t.countClass(classExhausted, n)
	default:
		t.Metric.NodesFiltered++
		t.count(nodesFiltered, r.Reason, 1)
		t.countClass(classFiltered, n)
	}
}

// Merge adds the counts of other beyond base, from which both began.
func (t *Count) Merge(base, other *Count) {
	for at, n := range other.rejections {
		t.countReason(at, n-base.rejections[at])
	}

	t.AddKeys(maps.Keys(other.Keys))
	t.Metric.QuotaExhausted = union(t.Metric.QuotaExhausted, other.Metric.QuotaExhausted)
	t.Metric.NodesFiltered += other.Metric.NodesFiltered - base.Metric.NodesFiltered
	t.Metric.NodesExhausted += other.Metric.NodesExhausted - base.Metric.NodesExhausted

	// Both began with base. Without the difference its counts would be added once for each node.
	bases := base.counts()
	for in, counts := range other.counts() {
		for name, n := range *counts {
			if more := n - (*bases[in])[name]; more > 0 {
				t.count(in, name, more)
			}
		}
	}
}

// union returns a list with the elements of two, each once.
func union(a, b []string) []string {
	for _, s := range b {
		if !slices.Contains(a, s) {
			a = append(slices.Clip(a), s)
		}
	}
	return a
}

// OnlyBy reports whether one filter has made all rejections.
func (t *Count) OnlyBy(filter string) bool {
	for at := range t.rejections {
		if at[0] != filter {
			return false
		}
	}
	return len(t.rejections) > 0
}

// CountNode counts a node as the Nomad HTTP API defines: in the pool, in the datacenters, evaluated.
func (t *Count) CountNode(n *structs.Node, rejectedBy string) {
	switch rejectedBy {
	case FilterEligibility, FilterPool:
		return
	case FilterDatacenter:
		t.Metric.NodesInPool++
		return
	}

	t.Metric.NodesInPool++
	t.count(nodesAvailable, n.Datacenter, 1)
	t.Metric.NodesEvaluated++
}

// CountBlocked records a rejection by all nodes alike, none of which was tried.
func (t *Count) CountBlocked(r Rejection) {
	t.addRejection(&r, 0)
	t.count(nodesFiltered, r.Reason, 0)
}

// addRejection records a rejection by a number of nodes, and cuts its reason.
func (t *Count) addRejection(r *Rejection, nodes int) {
	r.Reason = structs.Cut(r.Reason, structs.MaxReason)
	t.countReason([2]string{r.Filter, r.Reason}, nodes)
	if r.Filter == FilterQuota {
		t.Metric.QuotaExhausted = union(t.Metric.QuotaExhausted, []string{r.Reason})
	}
	t.AddKeys(slices.Values(r.Keys))
}

// countReason adds nodes that a filter has rejected for a reason.
func (t *Count) countReason(at [2]string, nodes int) {
	t.listed = nil
	t.rejections = ownMap(t.rejections, &t.owned.rejections)
	t.rejections[at] += nodes
}

// countClass counts a node under its class. Most fleets have no classes.
func (t *Count) countClass(in int, n *structs.Node) {
	if n.NodeClass != "" {
		t.count(in, n.NodeClass, 1)
	}
}

// OtherReasons is the name of all reasons that a metric counts without a name.
const OtherReasons = "others"

// list returns the rejections in order: most nodes first.
func (t *Count) list() []*structs.PlacementRejection {
	// countReason drops the list at each change, so equal lengths mean that it is complete.
	if len(t.listed) == len(t.rejections) {
		return t.listed
	}

	for at, nodes := range t.rejections {
		t.listed = append(t.listed, &structs.PlacementRejection{
			Filter: at[0],
			Reason: at[1],
			Nodes:  nodes,
		})
	}

	slices.SortFunc(t.listed, func(a, b *structs.PlacementRejection) int {
		// The names decide between equal counts: a plan of one state always has the same text.
		return cmp.Or(
			b.Nodes-a.Nodes,
			cmp.Compare(a.Filter, b.Filter),
			cmp.Compare(a.Reason, b.Reason),
		)
	})

	return t.listed
}

// ToMetric returns the metric with its rejections. A metric is a part of a log entry, and its texts come from
// the job and the nodes: it names at most the given number of reasons, and four times as many datacenters and
// classes.
func (t *Count) ToMetric(most int) *structs.AllocMetric {
	t.owned = ownedMaps{}

	// The metric shares the maps from here on, so the count may not change them any more.
	m := t.Metric
	m.Rejections = firstRejections(t.list(), most)
	m.ConstraintFiltered = largestCounts(m.ConstraintFiltered, most)
	m.NodesAvailable = largestCounts(m.NodesAvailable, 4*most)
	m.ClassFiltered = largestCounts(m.ClassFiltered, 4*most)
	m.ClassExhausted = largestCounts(m.ClassExhausted, 4*most)
	m.QuotaExhausted = m.QuotaExhausted[:min(len(m.QuotaExhausted), most)]
	return &m
}

// firstRejections keeps the first rejections and sums up the others.
func firstRejections(all []*structs.PlacementRejection, most int) []*structs.PlacementRejection {
	if len(all) <= most {
		return all
	}

	// The sum keeps the number of nodes right, so that a reader sees how many rejections have no name.
	rest := &structs.PlacementRejection{
		Filter: OtherReasons,
		Reason: "further reasons, which are not named",
	}

	var kept []*structs.PlacementRejection
	for _, r := range all {
		// A count of an older metric may have its own sum of others, which joins this one.
		if len(kept) < most && r.Filter != OtherReasons {
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
		if len(kept) < most && k != OtherReasons {
			kept[k] = counts[k]
		} else {
			kept[OtherReasons] += counts[k]
		}
	}

	return kept
}

// MetricBytes returns about the size of a metric in a log entry.
func MetricBytes(m *structs.AllocMetric) int {
	size := 512
	for _, r := range m.Rejections {
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
