package scheduler

import "slices"

const (
	circleSteps = 512  // the most sets of members that the search for a circle tries
	planSteps   = 8192 // the most that all searches of a plan try
)

// circleSearch is the search for others that exchange their places with the target of a circle.
type circleSearch struct {
	*circle
	seen  map[uint64]bool // sets of others, as bits
	steps int             // left
}

// grown is a set of members with one more.
type grown struct {
	members []*member
	set     uint64
	fitting int
}

// isExchanged reports whether there are others with which the target exchanges its place: if all of them
// stop, all of their successors have a place.
func (c *circle) isExchanged() bool {
	alone := []*member{c.target}
	if slices.Contains(c.exchangeOf(append(alone, c.others...)), c.target) {
		return true
	}
	s := &circleSearch{circle: c, seen: map[uint64]bool{}, steps: circleSteps}
	return s.extend(grown{members: alone})
}

// extend reports whether the members with some of the rest exchange their places. It prefers those that let
// more successors fit: the allocation that has what the first one without a place needs.
func (s *circleSearch) extend(from grown) bool {
	var next []grown
	for i, m := range s.others {
		set := from.set | 1<<i
		if set == from.set || s.seen[set] || s.steps == 0 || s.searched == planSteps {
			continue
		}
		s.seen[set] = true
		s.steps--
		s.searched++
		g := grown{
			members: append(slices.Clip(from.members), m),
			set:     set,
		}
		g.fitting = s.fitting(g.members)
		if g.fitting == len(g.members) {
			return true
		}
		next = append(next, g)
	}
	slices.SortStableFunc(next, func(a, b grown) int { return b.fitting - a.fitting })
	return slices.ContainsFunc(next, s.extend)
}

// fitting returns the number of members from the first on whose successors have a place if all members stop.
func (c *circle) fitting(members []*member) int {
	d := c.newTrial(members...)
	defer d.end()
	misfit := slices.IndexFunc(members, func(m *member) bool { return !d.place(m) })
	if misfit < 0 {
		return len(members)
	}
	return misfit
}
