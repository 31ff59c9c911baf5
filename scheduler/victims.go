package scheduler

import (
	"slices"

	"berth/structs"
)

// The best displacement of a node is the first in the order of displacement. A search looks at sets of
// victims, the small ones first, and leaves out those that cannot suffice or cannot be better. It is exact
// within these bounds, which keep the cost of a node with many allocations low.
const (
	mostSearched = 8    // victims of a set
	searchSteps  = 4096 // on one node: allocations that a set is extended by
	trialSteps   = 16   // that a trial of a set counts as
)

// candidateVictim is an allocation that a job may displace.
type candidateVictim struct {
	alloc    *structs.Allocation
	priority int
	missed   int // allocations that its group would miss beyond its pace

	room   int
	spare  *spare
	holder bool             // see demandsFrom
	alike  *candidateVictim // one before it that makes the same difference to a set, or nil
	chosen bool             // for the set that the search extends
}

func allocsOf(candidates []candidateVictim) []*structs.Allocation {
	allocs := make([]*structs.Allocation, len(candidates))
	for i, c := range candidates {
		allocs[i] = c.alloc
	}
	return allocs
}

// victimSearch is the search for the best displacement of a node.
type victimSearch struct {
	*planner
	placement *placement
	view      *nodeView
	from      []candidateVictim   // in the order of displaceable
	largest   []structs.Resources // by index of from: none from there on has more in a dimension
	least     []int               // by index of from: the least roomOf from there on
	needed    bool                // a set without a holder does not suffice
	steps     int                 // left
	set       []*candidateVictim
	best      *displacement
}

// searchVictims returns the best displacement of a node, or the best one that it has found. It reports
// whether there is no better one. All candidates together suffice.
func (p *planner) searchVictims(w *placement, v *nodeView, from []candidateVictim) (*displacement, bool) {
	s := &victimSearch{planner: p, placement: w, view: v, from: from, steps: searchSteps}
	s.prepare()
	for size := 1; size <= min(mostSearched, len(from)) && s.best == nil; size++ {
		s.extend(0, size, structs.Resources{}, [4]int{size})
	}
	return s.best, s.best != nil && s.steps > 0
}

// prepare computes what the search needs of the candidates.
func (s *victimSearch) prepare() {
	type kind struct {
		priority int
		spare    *spare
		cpu      int
		memory   int
		disk     int
		ports    string // addresses of dynamic ports, if the group demands some
	}
	dynamic := slices.ContainsFunc(s.placement.plan.ports, func(p structs.Port) bool { return !p.Static() })
	last := map[kind]*candidateVictim{}
	for i := range s.from {
		c := &s.from[i]
		c.room = roomOf(c.alloc)
		c.spare = s.spareOf(c.alloc)
		c.holder = s.placement.plan.demandsFrom(c.alloc)
		if c.holder {
			continue
		}
		k := kind{priority: c.priority, spare: c.spare}
		if r := c.alloc.Resources; r != nil {
			k.cpu = r.CPU
			k.memory = r.MemoryMB
			k.disk = r.DiskMB
		}
		if dynamic {
			k.ports = s.dynamicPorts(c.alloc)
		}
		c.alike = last[k]
		last[k] = c
	}
	s.largest = make([]structs.Resources, len(s.from))
	s.least = make([]int, len(s.from))
	var largest structs.Resources
	least := s.from[len(s.from)-1].room
	for i, c := range slices.Backward(s.from) {
		if c.alloc.Resources != nil {
			largest = largest.Most(*c.alloc.Resources)
		}
		least = min(least, c.room)
		s.largest[i] = largest
		s.least[i] = least
	}
	others := slices.DeleteFunc(slices.Clone(s.from), func(c candidateVictim) bool { return c.holder })
	s.needed = len(others) < len(s.from) && !s.fitsWithout(s.placement, s.view, allocsOf(others))
}

// dynamicPorts returns the addresses of the ports of an allocation that are dynamic on its node.
func (s *victimSearch) dynamicPorts(a *structs.Allocation) (addresses string) {
	low, high := s.view.node.DynamicPorts()
	for _, p := range a.Ports {
		if p.Value >= low && p.Value <= high {
			addresses += p.HostIP + " "
		}
	}
	return addresses
}

// extend extends a set by a number of the candidates from an index on, in each way that may give the best
// displacement. The set gives the room freed and has an order so far.
func (s *victimSearch) extend(first, more int, freed structs.Resources, order [4]int) {
	if more == 0 {
		s.try(freed, order)
		return
	}
	for at := first; at+more <= len(s.from) && s.steps > 0; at++ {
		c := &s.from[at]
		if c.alike != nil && !c.alike.chosen {
			continue // the set with the other one is tried
		}
		s.steps--
		if !s.maySuffice(at, more, freed) || !s.mayBeBest(at, more, order) {
			return // nor with a later one
		}
		with := freed
		if c.alloc.Resources != nil {
			with = freed.Add(*c.alloc.Resources)
		}
		longer := s.orderWith(order, c)
		c.chosen = true
		s.set = append(s.set, c)
		s.extend(at+1, more-1, with, longer)
		s.set = s.set[:len(s.set)-1]
		c.chosen = false
	}
}

// maySuffice reports whether the room of a node may suffice with that of more candidates from an index on.
func (s *victimSearch) maySuffice(at, more int, freed structs.Resources) bool {
	for range more {
		freed = freed.Add(s.largest[at])
	}
	return s.hasRoom(freed)
}

func (s *victimSearch) hasRoom(freed structs.Resources) bool {
	return s.view.room.Short(s.placement.plan.ask.Sub(freed)) == ""
}

// mayBeBest reports whether a set with more candidates from an index on may be better than the best one.
func (s *victimSearch) mayBeBest(at, more int, order [4]int) bool {
	order[1] += more * s.from[at].priority // no later one has a lower one
	order[3] += more * s.least[at]
	return s.isBetter(order)
}

// isBetter reports whether a displacement with an order is better than the best one.
func (s *victimSearch) isBetter(order [4]int) bool {
	return s.best == nil || slices.Compare(order[:], s.best.order[:]) < 0
}

// orderWith returns the order of the set with another candidate.
func (s *victimSearch) orderWith(order [4]int, c *candidateVictim) [4]int {
	order[1] += c.priority
	order[3] += c.room
	before := 0
	for _, other := range s.set {
		if other.spare == c.spare {
			before++
		}
	}
	if c.spare != nil && before >= c.spare.left {
		order[2]++
	}
	return order
}

// try makes the set the best one if it is better and suffices.
func (s *victimSearch) try(freed structs.Resources, order [4]int) {
	if !s.isBetter(order) || !s.hasRoom(freed) {
		return
	}
	holds := slices.ContainsFunc(s.set, func(c *candidateVictim) bool { return c.holder })
	if s.needed && !holds {
		return
	}
	s.steps -= trialSteps
	victims := make([]*structs.Allocation, len(s.set))
	for i, c := range s.set {
		victims[i] = c.alloc
	}
	if s.fitsWithout(s.placement, s.view, victims) {
		s.best = &displacement{view: s.view, victims: victims, order: order}
	}
}
