package scheduler

import (
	"cmp"
	"math"
	"slices"

	"berth/structs"
)

// scorer is one view of how good a node is for an allocation: from -1 to 1, or nothing to say.
type scorer struct {
	name  string
	score func(w *want, v *view) (float64, bool)
}

var scorers = []scorer{
	{"binpack", binpack},
	{"job-anti-affinity", antiAffinity},
	{"node-reschedule-penalty", penalty},
}

// keptScores is how many nodes an allocation remembers the scores of.
const keptScores = 5

// binpack prefers nodes that are fuller, so that others stay free for what is large. It is 1 for a node
// that the allocation fills in every dimension, 0 for an empty one; free space counts progressively.
func binpack(w *want, v *view) (float64, bool) {
	have, used := v.node.Available(), v.used.Add(w.plan.ask)
	sum, dimensions := 0.0, 0.0
	for _, d := range [][2]int{{have.CPU, used.CPU}, {have.MemoryMB, used.MemoryMB}, {have.DiskMB, used.DiskMB}} {
		if d[0] <= 0 {
			continue
		}
		free := 1 - float64(d[1])/float64(d[0])
		sum += (10 - math.Pow(10, free)) / 9
		dimensions++
	}
	if dimensions == 0 {
		return 0, false
	}
	return sum / dimensions, true
}

// antiAffinity spreads a group: losing one node should not lose all of it.
func antiAffinity(w *want, v *view) (float64, bool) {
	there := v.groups[w.plan.group.Name]
	if there == 0 || w.plan.group.Count <= 1 {
		return 0, false
	}
	return -min(1, float64(there+1)/float64(w.plan.group.Count)), true
}

// penalty keeps away from the node where the allocation failed.
func penalty(w *want, v *view) (float64, bool) {
	return -1, w.rescheduled && w.prev.NodeID == v.node.ID
}

// rank scores a node: the mean of what the scorers say.
func rank(w *want, v *view) *structs.NodeScoreMeta {
	m := &structs.NodeScoreMeta{NodeID: v.node.ID, Scores: map[string]float64{}}
	for _, s := range scorers {
		if score, ok := s.score(w, v); ok {
			m.Scores[s.name] = score
			m.NormScore += score
		}
	}
	if len(m.Scores) > 0 {
		m.NormScore /= float64(len(m.Scores))
	}
	return m
}

// best orders scores: the highest first, equal ones by node, so that equal states give equal plans.
func best(scores []*structs.NodeScoreMeta) []*structs.NodeScoreMeta {
	slices.SortFunc(scores, func(a, b *structs.NodeScoreMeta) int {
		return cmp.Or(cmp.Compare(b.NormScore, a.NormScore), cmp.Compare(a.NodeID, b.NodeID))
	})
	return scores[:min(len(scores), keptScores)]
}
