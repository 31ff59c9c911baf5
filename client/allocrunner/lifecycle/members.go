package lifecycle

import (
	"slices"

	"berth/structs"
)

// Member is a task in the life of its allocation.
type Member struct {
	Task  *structs.Task // as it was first seen: a lifecycle does not change
	State *structs.TaskState
	Ran   bool // its process has started
}

// IsPoststop reports whether the task runs after all others.
func (m Member) IsPoststop() bool {
	return m.Task.HasHook(structs.LifecyclePoststop)
}

// hasPrepared reports whether the main tasks need not wait for a prestart task.
func (m Member) hasPrepared() bool {
	return m.State.Successful() || m.runs() && m.Task.Sidecar()
}

func (m Member) hasStarted() bool {
	return m.State.Successful() || m.runs()
}

func (m Member) runs() bool { return m.State.State == structs.TaskRunning }

func (m Member) isDead() bool { return m.State.State == structs.TaskDead }

// holdsForAll reports whether a condition holds for every task with a hook.
func holdsForAll(members []Member, hook string, holds func(Member) bool) bool {
	return !slices.ContainsFunc(members, func(m Member) bool {
		return m.Task.HasHook(hook) && !holds(m)
	})
}

// AnyRunning reports whether a task runs.
func AnyRunning(members []Member) bool {
	return slices.ContainsFunc(members, Member.runs)
}

// AllDead reports whether every task is dead.
func AllDead(members []Member) bool {
	return !slices.ContainsFunc(members, func(m Member) bool { return !m.isDead() })
}

// OnlySidecarsLeft reports whether every task is dead that is neither a sidecar nor a poststop task.
func OnlySidecarsLeft(members []Member) bool {
	return !slices.ContainsFunc(members, func(m Member) bool {
		return !m.IsPoststop() && !m.Task.Sidecar() && !m.isDead()
	})
}

// OthersRan reports whether a task has started that is not a poststop task. Without it there is nothing for
// which a poststop task could clean up.
func OthersRan(members []Member) bool {
	return slices.ContainsFunc(members, func(m Member) bool {
		return !m.IsPoststop() && m.Ran
	})
}

// PoststopDue reports whether a poststop task has to run, now or after the end of the others.
func PoststopDue(members []Member) bool {
	return OthersRan(members) && slices.ContainsFunc(members, func(m Member) bool {
		return m.IsPoststop() && !m.isDead()
	})
}

// StopRanks is the number of ranks in the order of a stop.
const StopRanks = 3

// StopRank returns the place of a task in the order of a stop: the leader, the tasks that are no sidecars,
// the sidecars. first is the task as it was first seen, now as the servers last sent it.
func StopRank(first, now *structs.Task) int {
	switch {
	case now.Leader:
		return 0
	case first.Sidecar():
		return 2
	}
	return 1
}
