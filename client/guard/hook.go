package guard

import (
	"context"

	"berth/client/drivers/cgroups"
	"berth/client/drivers/driver"
	"berth/client/hooks"
	"berth/internal/backoff"
	"berth/structs"
)

// Hook returns the hook that orders the guard to end an allocation after its group's
// stop_on_client_after, and that removes the order of the allocation, of whatever reason. It comes before
// the hook of volumes. The group may get that setting while the allocation runs, so each one has the hook.
func (g *Guard) Hook(env *hooks.AllocEnv) hooks.Alloc { return &hook{g, env} }

// TaskHook returns the hook that keeps a task from a start after the end of the allocation.
func (g *Guard) TaskHook(env *hooks.AllocEnv) hooks.Task { return &taskHook{g, env.Alloc.ID} }

// stops reports whether allocations of a group end a time after the lease.
func stops(group *structs.TaskGroup) bool {
	return group.Disconnect != nil && group.Disconnect.StopOnClientAfter != nil
}

// newPause is between two looks for a lease.
func newPause() backoff.Backoff { return backoff.Backoff{Min: hooks.Pace.Min / 4, Max: hooks.Pace.Min} }

type hook struct {
	g   *Guard
	env *hooks.AllocEnv
}

// Name implements hooks.Alloc.
func (*hook) Name() string { return "guard" }

// Up implements hooks.Alloc. It waits for a lease of the node.
func (h *hook) Up(ctx context.Context, env *hooks.AllocEnv) error {
	h.g.follow(env.Alloc.ID)
	pause := newPause()
	for {
		err := h.g.followGroup(env.Alloc.ID, env.Group)
		if !structs.IsKind(err, structs.KindUnavailable) || !pause.Wait(ctx) {
			return err
		}
	}
}

// Down implements hooks.Alloc.
func (h *hook) Down(context.Context) error { return h.g.Release(h.env.Alloc.ID) }

type taskHook struct {
	g       *Guard
	allocID string
}

// Name implements hooks.Task.
func (*taskHook) Name() string { return "guard" }

// Up implements hooks.Task. It waits for a lease of the node.
func (h *taskHook) Up(ctx context.Context, env *hooks.TaskEnv) error {
	// The guard ends a running task when it is due.
	if env.Running {
		return nil
	}

	pause := newPause()
	for {
		err := h.g.mayStart(h.allocID)
		if err == nil {
			return h.announce(env)
		}
		if structs.IsKind(err, structs.KindConflict) {
			return &hooks.Failure{Event: structs.TaskEventLeaseEnded, Final: true, Err: err}
		}

		if !structs.IsKind(err, structs.KindUnavailable) || !pause.Wait(ctx) {
			return err
		}
	}
}

// announce lets the driver of a guarded task add the cgroup that it makes to the order.
func (h *taskHook) announce(env *hooks.TaskEnv) error {
	o, err := h.g.present().Get(h.allocID)
	if err != nil || o == nil {
		return err
	}

	d, err := h.g.Drivers.Driver(env.Task.Driver)
	if err != nil {
		return err
	}
	// The order has the cgroups of other drivers from its begin: see groupOf.
	if _, ok := d.(driver.Announcing); ok {
		env.Config.OrderGuard = func(group *cgroups.Group) error {
			return h.g.addGroup(h.allocID, env.Task.Name, group)
		}
	}
	return nil
}

// Down implements hooks.Task.
func (*taskHook) Down(context.Context) error { return nil }

// HasEnded reports whether an allocation is due: the guard kills its tasks.
func (g *Guard) HasEnded(allocID string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return structs.IsKind(g.checkDueOrdered(allocID), structs.KindConflict)
}

// checkDueOrdered is checkDue for an allocation that may have no order: it does not end with the lease. The
// caller holds mu.
func (g *Guard) checkDueOrdered(allocID string) error {
	o, err := g.files.Get(allocID)
	if err != nil || o == nil {
		return err
	}
	return g.checkDue(allocID)
}

// mayStart returns a conflict if an allocation has ended, and is unavailable while the guard would end it.
func (g *Guard) mayStart(allocID string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	o, err := g.files.Get(allocID)
	// An allocation without an order does not end with the lease.
	if err != nil || o == nil {
		return err
	}
	err = g.checkDue(allocID)
	if err != nil {
		return err
	}

	l, err := g.read()
	if err == nil && g.Clock() >= o.End(l.Until) {
		return structs.Unavailablef("the node has no lease from the servers now")
	}
	return err
}
