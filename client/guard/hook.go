package guard

import (
	"context"

	"berth/client/hooks"
	"berth/internal/backoff"
	"berth/structs"
)

// Hook returns the hook that orders the guard to end an allocation after its group's
// stop_on_client_after, and that removes the order of the allocation, of whatever reason. It comes before
// the hook of volumes. It is nil for a group that no guard ends.
func (g *Guard) Hook(env *hooks.AllocEnv) hooks.Alloc {
	if !isGuarded(env.Group) {
		return nil
	}
	return &hook{g, env}
}

// TaskHook returns the hook that keeps a task from a start after the end of the allocation, nil for a group
// that no guard ends.
func (g *Guard) TaskHook(env *hooks.AllocEnv) hooks.Task {
	if !isGuarded(env.Group) {
		return nil
	}
	return &taskHook{g, env.Alloc.ID}
}

// isGuarded reports whether allocations of a group may have an order.
func isGuarded(group *structs.TaskGroup) bool {
	if stops(group) {
		return true
	}
	for _, v := range group.Volumes {
		if v != nil && v.Type == structs.VolumeTypeCSI {
			return true
		}
	}
	return false
}

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

// Up implements hooks.Alloc. It waits for a lease of the node. Where the guard cannot end the tasks,
// their agent alone stops them.
func (h *hook) Up(ctx context.Context, env *hooks.AllocEnv) error {
	if !stops(env.Group) {
		return nil
	}
	pause := newPause()
	for {
		err := h.g.Order(env.Alloc.ID, env.Group, nil)
		if structs.IsKind(err, structs.KindPrecondition) {
			h.g.Logger.Warn("the guard cannot end an allocation with stop_on_client_after; only the agent stops it",
				"alloc_id", env.Alloc.ID, "reason", err)
			return nil
		}
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
	if env.Running {
		return nil
	}
	pause := newPause()
	for {
		err := h.g.mayStart(h.allocID)
		if structs.IsKind(err, structs.KindConflict) {
			return &hooks.Failure{Event: structs.TaskEventLost, Final: true, Err: err}
		}
		if !structs.IsKind(err, structs.KindUnavailable) || !pause.Wait(ctx) {
			return err
		}
	}
}

// Down implements hooks.Task.
func (*taskHook) Down(context.Context) error { return nil }

// mayStart returns a conflict if an allocation has ended, and is unavailable while the guard would end it.
func (g *Guard) mayStart(allocID string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	o, err := g.files.Get(allocID)
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
