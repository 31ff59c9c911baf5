package explain

import (
	"berth/state"
	"berth/structs"
)

// awaitedTask returns the task of an allocation after which another one of it starts, "" if nothing prevents
// that: a prestart task for the main tasks, a main task for the poststart tasks.
func (x *explainer) awaitedTask(a *structs.Allocation, name string) string {
	j := state.JobOf(x.tx, a)
	if j == nil || j.Group(a.TaskGroup) == nil {
		return ""
	}

	g := j.Group(a.TaskGroup)
	waits := g.Task(name)
	if waits == nil || waits.HasHook(structs.LifecyclePrestart) {
		return ""
	}

	for _, t := range g.Tasks {
		s := a.TaskStates[t.Name]
		switch {
		case t.HasHook(structs.LifecyclePrestart):
			// A sidecar never ends by itself, so it lets the others start when it runs.
			if s == nil || !s.Successful() && (s.State != structs.TaskRunning || !t.Sidecar()) {
				return t.Name
			}
		case t.HasHook("") && waits.HasHook(structs.LifecyclePoststart):
			if s == nil || !s.Successful() && s.State != structs.TaskRunning {
				return t.Name
			}
		}
	}

	return ""
}

// stateOf returns the state of a task.
func stateOf(a *structs.Allocation, task string) string {
	if s := a.TaskStates[task]; s != nil {
		return s.State
	}
	return structs.TaskPending
}
