package place

import (
	"cmp"
	"slices"

	"berth/structs"
)

// This file chooses the allocations of a node that a more important placement displaces. It is pure: the
// caller tells whether the placement fits.

// preemptible is an allocation that a placement may displace.
type preemptible struct {
	Alloc    *structs.Allocation
	Priority int
	Spare    *groupSpare // of its group; nil if the group may miss any number
}

// groupSpare is the number of allocations that a group can miss now: max_parallel of its migrate block less
// the allocations that it misses already.
type groupSpare struct{ Left int }

// victimTrial is a node with a placement that does not fit there. It changes as allocations are set aside.
type victimTrial interface {
	Fits() bool
	SetAside(a *structs.Allocation)
	PutBack(a *structs.Allocation)

	// Measure returns a function that tells how much capacity the placement misses without an allocation, and
	// whether the allocation has anything that is missing now.
	Measure() func(a *structs.Allocation) (missing float64, helps bool)
}

// chooseVictims returns the candidates without which the placement fits, none of them superfluous. It returns
// none if the placement does not fit without all of them. The trial is as before.
func chooseVictims(t victimTrial, from []preemptible) (victims []preemptible) {
	taken := takeVictims(t, slices.Clone(from))
	suffices := t.Fits()

	// The most important ones are tried first, of equal ones the last.
	slices.Reverse(taken)
	slices.SortStableFunc(taken, func(a, b preemptible) int { return cmp.Compare(b.Priority, a.Priority) })
	for _, c := range taken {
		t.PutBack(c.Alloc)
		if suffices && !t.Fits() {
			t.SetAside(c.Alloc)
			victims = append(victims, c)
		}
	}

	for _, c := range victims {
		t.PutBack(c.Alloc)
	}

	return victims
}

// take sets candidates aside, the best one first, until the placement fits or none is left. It returns them
// in this order, and changes the order of the others.
func takeVictims(t victimTrial, from []preemptible) []preemptible {
	missed := map[*groupSpare]int{} // by the candidates that are set aside
	for at := range from {
		if t.Fits() {
			return from[:at]
		}

		measure := t.Measure()
		best := at
		first := rankOf(&from[at], measure, missed)
		for i := at + 1; i < len(from); i++ {
			r := rankOf(&from[i], measure, missed)
			if slices.Compare(r[:], first[:]) < 0 {
				best = i
				first = r
			}
		}

		from[at], from[best] = from[best], from[at]

		missed[from[at].Spare]++
		t.SetAside(from[at].Alloc)
	}
	return from
}

// rankOf returns the numbers that order candidates: candidates without anything that is missing come last.
// Then the least important come first, then the ones that their groups can miss, then the ones after which
// the least is missing, then the smallest.
func rankOf(
	c *preemptible, measure func(*structs.Allocation) (float64, bool), missed map[*groupSpare]int,
) (rank [5]float64) {
	missing, helps := measure(c.Alloc)
	if !helps {
		rank[0] = 1
	}
	rank[1] = float64(c.Priority)
	rank[2] = float64(c.beyond(missed[c.Spare] + 1))
	rank[3] = missing
	rank[4] = float64(sizeOf(c.Alloc))
	return rank
}

// beyond returns the number of allocations that the group of a candidate misses beyond its spare.
func (c *preemptible) beyond(missed int) int {
	if c.Spare == nil {
		return 0
	}
	return max(0, missed-c.Spare.Left)
}

// compareVictims orders the victims of two nodes, the better ones first: the fewest, then the lowest
// priorities, then the ones that their groups can miss, then the smallest.
func compareVictims(a, b []preemptible) int {
	return slices.Compare(costOf(a), costOf(b))
}

func costOf(victims []preemptible) []int {
	cost := make([]int, 4)
	missed := map[*groupSpare]int{}
	for _, c := range victims {
		missed[c.Spare]++
		cost[0]++
		cost[1] += c.Priority
		cost[2] += min(1, c.beyond(missed[c.Spare]))
		cost[3] += sizeOf(c.Alloc)
	}
	return cost
}

// size returns the resources of an allocation as one number, to compare.
func sizeOf(a *structs.Allocation) int {
	if a.Resources == nil {
		return 0
	}
	return a.Resources.CPU + a.Resources.MemoryMB + a.Resources.DiskMB
}
