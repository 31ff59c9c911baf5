package place

import (
	"math"
	"slices"

	"berth/scheduler/feasible"
	"berth/structs"
)

// scorer rates a node for an allocation, from -1 to 1, or abstains.
type scorer struct {
	name  string
	score func(w *Placement, v *feasible.NodeView) (float64, bool)
}

var scorers = []scorer{
	{"binpack", binpack},
	{"job-anti-affinity", antiAffinity},
	{"node-reschedule-penalty", reschedulePenalty},
	{"node-affinity", nodeAffinity},
	{"allocation-spread", allocationSpread},
	{"devices", deviceAffinities},
}

// keptScores is the number of nodes whose scores an allocation keeps.
const keptScores = 5

// binpack prefers fuller nodes, so that others stay free for large allocations. It is 1 for a node that the
// allocation fills in every dimension, 0 for an empty one; free space counts progressively. With the
// algorithm spread it prefers emptier nodes: it is 0 for a full one and 1 for an empty one.
func binpack(w *Placement, v *feasible.NodeView) (float64, bool) {
	sum := 0.0
	dimensions := 0.0
	for _, d := range v.Capacity.With(w.Group.Spec.Kept) {
		if d[0] <= 0 {
			continue
		}

		free := 1 - float64(d[1])/float64(d[0])
		sum += (10 - powerOfTen(free)) / 9
		dimensions++
	}

	if dimensions == 0 {
		return 0, false
	}

	if w.Group.Spec.Emptier {
		return 1 - sum/dimensions, true
	}

	return sum / dimensions, true
}

// powers has 10 to the power of i/len. One of them takes 5 ns, math.Pow takes ten times that, and a sample
// needs 200.
var powers = func() (table [1025]float64) {
	for i := range table {
		table[i] = math.Pow(10, float64(i)/float64(len(table)-1))
	}
	return table
}()

// powerOfTen returns 10 to the power of x, from 0 to 1, with an error below 0.00001.
func powerOfTen(x float64) float64 {
	at := min(1, max(0, x)) * float64(len(powers)-1)
	i := min(int(at), len(powers)-2)
	return powers[i] + (at-float64(i))*(powers[i+1]-powers[i])
}

// antiAffinity spreads a group: losing one node should not lose all of it.
func antiAffinity(w *Placement, v *feasible.NodeView) (float64, bool) {
	group := w.Group.Spec.TaskGroup
	there := v.CountOf(group.Name)
	if there == 0 || group.Count <= 1 {
		return 0, false
	}

	// The new allocation counts, too, so a node that would have the whole group has -1.
	share := float64(there+1) / float64(group.Count)
	return -min(1, share), true
}

// reschedulePenalty avoids the node on which the allocation failed.
func reschedulePenalty(w *Placement, v *feasible.NodeView) (float64, bool) {
	return -1, w.kind == KindReschedule && w.Prev.NodeID == v.Node.ID
}

// nodeAffinity prefers the nodes for which affinities hold.
func nodeAffinity(w *Placement, v *feasible.NodeView) (float64, bool) {
	score := w.Group.Spec.Affinity(v.Node)
	return score, score != 0
}

// allocationSpread prefers the nodes with values of which the group has too few allocations.
func allocationSpread(w *Placement, v *feasible.NodeView) (float64, bool) {
	score := w.Group.Spec.Spread(v.Node)
	return score, score != 0
}

// deviceAffinities prefers the nodes whose devices meet the affinities of the demands.
func deviceAffinities(w *Placement, v *feasible.NodeView) (float64, bool) {
	return w.Group.Spec.DeviceScore(v)
}

// ranked is a node with the mean of its scores.
type ranked struct {
	view *feasible.NodeView
	mean float64
}

// rankNode returns the mean of the scores. A scorer that abstains neither raises nor lowers it.
func rankNode(w *Placement, v *feasible.NodeView) ranked {
	sum := 0.0
	n := 0.0
	for _, s := range scorers {
		if score, ok := s.score(w, v); ok {
			sum += score
			n++
		}
	}
	return ranked{v, sum / max(n, 1)}
}

// before orders nodes: the better first, equal ones by ID, so that equal states give equal plans.
func (r ranked) before(o ranked) bool {
	if r.mean != o.mean {
		return r.mean > o.mean
	}
	return r.view.Node.ID < o.view.Node.ID
}

// topN keeps the best few nodes, in order.
type topN []ranked

// insert adds a node if it is among the best. It keeps one place more for the moment of the insertion.
func (p *topN) insert(r ranked) {
	best := *p
	if cap(best) == 0 {
		best = make(topN, 0, keptScores+1)
	}
	at := len(best)
	for at > 0 && r.before(best[at-1]) {
		at--
	}
	if at < keptScores {
		best = slices.Insert(best, at, r)
		*p = best[:min(len(best), keptScores)]
	}
}

// scores returns each scorer's score of each node.
func (p *Placer) scores(w *Placement, top topN) []*structs.NodeScoreMeta {
	repeats := p.repeats(w)
	out := make([]*structs.NodeScoreMeta, len(top))
	for i, r := range top {
		last := &r.view.Fits
		kept := repeats && last.Group == w.Group.Spec

		// Allocations of one group share the row of scores of a node. They are in one log entry, and rows are
		// immutable.
		if kept && last.Scores != nil {
			out[i] = last.Scores
			continue
		}
		out[i] = scoresOn(w, r)
		if kept {
			last.Scores = out[i]
		}
	}
	return out
}

// scoresOn computes the scores again, which the trial has not kept: few of the tried nodes need them.
func scoresOn(w *Placement, r ranked) *structs.NodeScoreMeta {
	m := &structs.NodeScoreMeta{
		NodeID:    r.view.Node.ID,
		Scores:    map[string]float64{},
		NormScore: r.mean,
	}
	for _, s := range scorers {
		score, ok := s.score(w, r.view)
		if ok {
			m.Scores[s.name] = score
		}
	}
	return m
}
