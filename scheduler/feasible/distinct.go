package feasible

import (
	"cmp"
	"slices"

	"berth/state"
	"berth/structs"
)

// IsCrowded reports whether an allocation of an older version has to leave its node, because the newest
// version limits the allocations of a node or of a value more than that one: by distinct_hosts or by
// distinct_property.
func (p *Outlook) IsCrowded(g *Group, a *structs.Allocation) bool {
	if !g.Limited() {
		return false
	}

	if p.crowded == nil {
		p.crowded = map[*Group]map[string]bool{}
	}

	// Whether one is crowded depends on the others, so all are decided together and once.
	crowded := p.crowded[g]
	if crowded == nil {
		crowded = p.findCrowded(g)
		p.crowded[g] = crowded
	}

	return crowded[a.ID]
}

// findCrowded returns the IDs of the allocations that exceed the limits of the group. Those with the lowest
// indexes stay. Those that leave their nodes anyway crowd none.
func (p *Outlook) findCrowded(g *Group) map[string]bool {
	specs := map[string]*Group{g.TaskGroup.Name: g}
	live := slices.DeleteFunc(slices.Clone(p.live), func(a *structs.Allocation) bool {
		return a.Terminal() || a.Migrate || p.stopped[a.ID] || p.NodeOf(a).Lost() || p.isExcluded(a, specs)
	})

	// The lowest indexes stay. The order makes a second plan decide the same.
	slices.SortFunc(live, func(a, b *structs.Allocation) int {
		return cmp.Or(cmp.Compare(a.Index(), b.Index()), cmp.Compare(a.ID, b.ID))
	})
	crowded := map[string]bool{}
	used := map[placeOfLimit]int{}
	for _, a := range live {
		places, within := g.placesOf(a, used)

		// Those of other groups are decided with their own group, and only take places here.
		if !within && a.TaskGroup == g.TaskGroup.Name {
			crowded[a.ID] = true
			continue
		}

		for _, at := range places {
			used[at]++
		}
	}

	return crowded
}

// isExcluded reports whether an allocation of an older version has to leave its node, because the newest
// version of its group may not run there. It adds the groups that it compiles to specs.
func (p *Outlook) isExcluded(a *structs.Allocation, specs map[string]*Group) bool {
	group := p.Job.Group(a.TaskGroup)
	if !p.IsOlder(a) || group == nil {
		return false
	}
	g := specs[group.Name]
	if g == nil {
		// newGroup suffices: the algorithm and the memory_max of Compile matter to placements only.
		g = newGroup(p, p.Job, group)
		specs[group.Name] = g
	}
	return g.CheckRunning(p.NodeOf(a)) != ""
}

// placeOfLimit is a node, or a value of the attribute of a distinct_property constraint.
type placeOfLimit struct {
	limit int // the index of the constraint, -1 for distinct_hosts
	value string
}

// placesOf returns the places of an allocation that the group limits, and whether each has capacity for it.
func (g *Group) placesOf(a *structs.Allocation, used map[placeOfLimit]int) (
	all []placeOfLimit, within bool,
) {
	own := a.TaskGroup == g.TaskGroup.Name
	within = true
	add := func(at placeOfLimit, most int) {
		all = append(all, at)
		within = within && used[at] < most
	}
	if g.distinct == "job" || g.distinct == "group" && own {
		add(placeOfLimit{-1, a.NodeID}, 1)
	}

	for i, limit := range g.properties {
		if limit.count.Group != "" && !own {
			continue
		}

		is := limit.count.On(state.Node(g.outlook, a.NodeID))
		if is.Set {
			add(placeOfLimit{i, is.Text}, limit.most)
		} else {
			// A node without the attribute may have no allocation of the group.
			within = false
		}
	}

	return all, within
}
