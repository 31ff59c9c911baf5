package feasible

import (
	"slices"
	"strconv"
	"strings"

	"berth/scheduler/match"
	"berth/structs"
)

// preferences are the affinities and spreads of a group, its job and its tasks.
type preferences struct {
	affinities []nodeAffinityTerm
	spreads    []*spreadTerm
}

// nodeAffinityTerm is an affinity with its share of all weights, from -1 to 1.
type nodeAffinityTerm struct {
	match.Constraint
	share float64
}

// spreadTerm is a spread with its share of the weights of all spreads, from 0 to 1.
type spreadTerm struct {
	share   float64
	count   *match.ValueCount
	desired map[string]float64 // allocations by value; nil: as many with one value as with another
}

// others is the value in spreadTerm.desired of all values that no target names.
const others = "*"

// compilePreferences compiles the preferences of a group. A per-node job has no choice, and so none.
func compilePreferences(j *structs.Job, g *structs.TaskGroup) preferences {
	var p preferences
	if j.PerNode() {
		return p
	}

	affinities := slices.Concat(j.Affinities, g.Affinities)
	for _, t := range g.Tasks {
		affinities = append(affinities, t.Affinities...)
	}

	sum := 0.0
	for _, a := range affinities {
		// Negative weights avoid nodes. Their size counts, so that the shares of all add up to 1.
		sum += max(float64(a.Weight), -float64(a.Weight))
	}

	for _, a := range affinities {
		p.affinities = append(p.affinities, nodeAffinityTerm{
			match.CompileConstraint(a.Constraint()),
			float64(a.Weight) / max(1, sum),
		})
	}

	spreads := slices.Concat(j.Spreads, g.Spreads)
	sum = 0
	for _, s := range spreads {
		sum += float64(s.Weight)
	}

	for _, s := range spreads {
		term := newSpreadTerm(g, s)
		term.share = float64(s.Weight) / max(1, sum)
		p.spreads = append(p.spreads, term)
	}

	return p
}

// newSpreadTerm turns the percentages of a spread into numbers of allocations. It sets no share.
func newSpreadTerm(g *structs.TaskGroup, s *structs.Spread) *spreadTerm {
	t := &spreadTerm{
		count: &match.ValueCount{Group: g.Name, Of: match.TargetOf(s.Attribute)},
	}
	if len(s.SpreadTarget) == 0 {
		return t
	}

	t.desired = map[string]float64{}

	// What the targets leave belongs to all other values together.
	rest := 100
	for _, target := range s.SpreadTarget {
		t.desired[target.Value] = float64(target.Percent) * float64(g.Count) / 100
		rest -= int(target.Percent)
	}

	if _, named := t.desired[others]; !named && rest > 0 {
		t.desired[others] = float64(rest) * float64(g.Count) / 100
	}

	t.count.Rest = func(text string) string {
		if _, named := t.desired[text]; named {
			return text
		}
		return others
	}

	return t
}

// any reports whether there are preferences.
func (p *preferences) any() bool { return len(p.affinities)+len(p.spreads) > 0 }

// affinity returns the sum of the weights of the affinities that hold on a node, divided by the sum of all
// weights without their signs.
func (p *preferences) affinity(n *structs.Node) float64 {
	sum := 0.0
	for _, a := range p.affinities {
		if a.Constraint.MetBy(n) {
			sum += a.share
		}
	}
	return sum
}

// spread returns how much an allocation on a node brings the group nearer to its distribution: the sum over
// the spreads by their weights. A node without an attribute counts -1.
func (p *preferences) spread(of *Outlook, n *structs.Node) float64 {
	sum := 0.0
	for _, s := range p.spreads {
		counts := of.countsOf(s.count)
		is := counts.On(n)
		switch {
		case !is.Set:
			sum -= s.share
		case s.desired != nil:
			sum += s.share * s.towardsTarget(counts.Counts[is.Text], is.Text)
		default:
			sum += s.share * evenness(counts, is.Text)
		}
	}
	return sum
}

// towardsTarget is the part of the desired allocations that is missing after one more: 1 at most, below 0 if
// there are too many. A value for which none is desired counts less with each allocation.
func (s *spreadTerm) towardsTarget(used int, text string) float64 {
	after := float64(used + 1)
	desired := s.desired[text]
	if desired == 0 {
		return -after
	}
	return (desired - after) / desired
}

// evenness compares the count of a value with the least and the greatest count of the values in use. The
// value with the least count is preferred the more, the further it is behind. If all are equal, each counts
// -1, so that a value without an allocation is better.
func evenness(c *match.ValueCount, text string) float64 {
	used := c.Counts[text]
	least := float64(c.Least)
	switch {
	case len(c.Counts) == 0:
		return 0
	case used != c.Least:
		return (least - float64(used)) / least
	case c.Least == c.Most:
		return -1
	}
	return (float64(c.Most) - least) / least
}

// class returns a text that is equal for nodes that the preferences rate alike.
func (p *preferences) class(n *structs.Node) string {
	var b strings.Builder
	b.WriteString(strconv.FormatFloat(p.affinity(n), 'g', 6, 64))
	for _, s := range p.spreads {
		is := s.count.On(n)
		b.WriteByte(0)
		if is.Set {
			b.WriteByte('=')
			b.WriteString(is.Text)
		}
	}
	return b.String()
}

// HasPreferences reports whether the group has affinities or spreads.
func (g *Group) HasPreferences() bool {
	return g.prefers.any()
}

// Affinity returns the score of the affinities of the group on a node: see preferences.affinity.
func (g *Group) Affinity(n *structs.Node) float64 {
	return g.prefers.affinity(n)
}

// Spread returns the score of the spreads of the group on a node: see preferences.spread.
func (g *Group) Spread(n *structs.Node) float64 {
	return g.prefers.spread(g.outlook, n)
}

// PreferenceClass returns a text that is equal for nodes that the preferences rate alike.
func (g *Group) PreferenceClass(n *structs.Node) string {
	return g.prefers.class(n)
}

// DependsOnOthers reports whether limits or spreads of the group make a node depend on allocations on others.
func (g *Group) DependsOnOthers() bool {
	return len(g.properties) > 0 || len(g.prefers.spreads) > 0
}
