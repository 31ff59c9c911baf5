package structs

import "slices"

// The hooks of a lifecycle.
const (
	LifecyclePrestart  = "prestart"  // before the main tasks start
	LifecyclePoststart = "poststart" // after all main tasks have started
	LifecyclePoststop  = "poststop"  // after all other tasks have ended
)

// TaskLifecycle is a task's `lifecycle {}`: the time at which it runs in the life of its allocation. A task
// without one is a main task. A task that is no sidecar is expected to end by itself: a prestart task before
// the main tasks start. A sidecar runs until the main tasks have ended.
type TaskLifecycle struct {
	Hook    string
	Sidecar bool
}

// HasHook reports whether the task runs at the time of a hook. "" is the time of the main tasks.
func (t *Task) HasHook(hook string) bool {
	if t.Lifecycle == nil {
		return hook == ""
	}
	return t.Lifecycle.Hook == hook
}

// Sidecar reports whether the task runs beside the main tasks, from its hook to their end.
func (t *Task) Sidecar() bool {
	return t.Lifecycle != nil && t.Lifecycle.Sidecar
}

// Finite reports whether the task is expected to end by itself.
func (t *Task) Finite(j *Job) bool {
	if t.Lifecycle == nil {
		return j.Finite()
	}
	return !t.Lifecycle.Sidecar
}

// WorkDone reports whether the main tasks of an allocation of the group, or its leader alone, have ended by
// themselves and without an error.
func (g *TaskGroup) WorkDone(states map[string]*TaskState) bool {
	leads := slices.ContainsFunc(g.Tasks, func(t *Task) bool { return t.Leader })
	return !slices.ContainsFunc(g.Tasks, func(t *Task) bool {
		return t.Lifecycle == nil && t.Leader == leads && !states[t.Name].endedByItself()
	})
}

// endedByItself reports whether a task has ended without an error, and nobody has told it to.
func (s *TaskState) endedByItself() bool {
	if s == nil || !s.Successful() {
		return false
	}
	for _, e := range slices.Backward(s.Events) {
		switch {
		case e == nil:
		case e.Type == TaskEventTerminated:
			return e.ExitCode == 0 && e.Signal == 0
		case e.Type == TaskEventStarted, e.Type == TaskEventRestarting, e.Type == TaskEventKilling:
			return false
		}
	}
	return false
}

// KeepsData reports whether an allocation of the group takes over the data of the one that it replaces. A nil
// group does not.
func (g *TaskGroup) KeepsData() bool {
	return g != nil && g.EphemeralDisk != nil && g.EphemeralDisk.Sticky
}
