package guard

import (
	"errors"
	"maps"
	"slices"
	"time"

	"berth/structs"
)

// agentMargin is the time between the end of an agent's own stop and the guard's.
const agentMargin = 5 * time.Second

// followed is an allocation whose group may get, change or lose its stop_on_client_after while it runs.
type followed struct {
	delay time.Duration // of the order, if the group stops
	stops bool
	told  bool // that the guard cannot end it
}

// stopTime is the time that an agent takes to stop the tasks of a group: a kill without their signal comes
// after it.
func stopTime(group *structs.TaskGroup) time.Duration {
	longest := time.Duration(0)
	for _, t := range group.Tasks {
		longest = max(longest, t.KillTimeout+t.ShutdownDelay)
	}
	if group.ShutdownDelay != nil {
		longest += *group.ShutdownDelay
	}
	return longest + agentMargin
}

// delayOf is the time from the end of the lease to the end of an allocation of a group that stops.
func delayOf(group *structs.TaskGroup) time.Duration {
	return *group.Disconnect.StopOnClientAfter + stopTime(group)
}

// follow begins to keep the order of an allocation equal to its group.
func (g *Guard) follow(allocID string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.followed[allocID] == nil {
		g.followed[allocID] = &followed{}
	}
}

// followGroups makes the orders follow the groups.
func (g *Guard) followGroups() error {
	g.mu.Lock()
	ids := slices.Collect(maps.Keys(g.followed))
	g.mu.Unlock()

	var errs []error
	for _, id := range ids {
		group := g.Group(id)
		// The agent does not have the allocation yet, or not any more.
		if group == nil {
			continue
		}

		err := g.followGroup(id, group)
		// Without a lease nothing is ordered, and what is due ends in any case.
		if !structs.IsKind(err, structs.KindUnavailable) && !structs.IsKind(err, structs.KindConflict) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// followGroup makes the order of an allocation follow its group. An allocation with volumes ends with the
// lease in any case. Where the guard cannot end the tasks, their agent alone stops them.
func (g *Guard) followGroup(allocID string, group *structs.TaskGroup) error {
	want := followed{stops: stops(group)}
	if want.stops {
		want.delay = delayOf(group)
	}

	g.ordering.Lock()
	defer g.ordering.Unlock()
	g.mu.Lock()
	f := g.followed[allocID] // only its Release, which needs ordering, removes it
	g.mu.Unlock()
	if f == nil || f.stops == want.stops && f.delay == want.delay {
		return nil
	}

	err := g.orderDelay(allocID, group)
	if structs.IsKind(err, structs.KindPrecondition) {
		if !f.told {
			g.Logger.Warn("the guard cannot end an allocation with stop_on_client_after; only the agent stops it",
				"alloc_id", allocID, "reason", err)
		}
		f.told = true
		err = nil
	}
	if err != nil {
		return err
	}

	// After an error, the next look tries again.
	f.stops = want.stops
	f.delay = want.delay
	return nil
}

// orderDelay gives an allocation without volumes the order of its group, or removes the order. The caller
// holds ordering.
func (g *Guard) orderDelay(allocID string, group *structs.TaskGroup) error {
	old, err := g.present().Get(allocID)
	if err != nil || old != nil && len(old.Volumes) > 0 {
		return err
	}

	if stops(group) {
		return g.order(allocID, group, nil)
	}
	if old == nil {
		return nil
	}

	return g.remove(allocID)
}
