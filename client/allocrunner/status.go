package allocrunner

import (
	"slices"

	"berth/client/hooks"
	"berth/structs"
)

// summarizeTasks returns the state of an allocation from the states of its tasks. It is terminal only when
// every task is dead: until then a task may still use a resource of the allocation.
func summarizeTasks(tasks map[string]*structs.TaskState) (state, description string) {
	count := map[string]int{}
	failed := false
	for _, t := range tasks {
		count[t.State]++
		failed = failed || t.Failed
	}
	ended := count[structs.TaskDead] == len(tasks)
	switch {
	case ended && failed:
		return structs.AllocFailed, "Failed tasks"
	case ended:
		return structs.AllocComplete, "All tasks have completed"
	case count[structs.TaskRunning] > 0:
		return structs.AllocRunning, "Tasks are running"
	}
	return structs.AllocPending, "No tasks have started"
}

// appendEvent adds an event to a task's state, dropping the oldest beyond structs.MaxTaskEvents. An event
// about the progress of a work replaces the last one about it, so a long work does not drop the others.
func appendEvent(s *structs.TaskState, e *structs.TaskEvent) {
	if n := len(s.Events); n > 0 && sameWork(s.Events[n-1], e) {
		s.Events[n-1] = e
		return
	}
	s.Events = append(s.Events, e)
	if n := len(s.Events); n > structs.MaxTaskEvents {
		s.Events = slices.Clone(s.Events[n-structs.MaxTaskEvents:])
	}
}

func sameWork(a, b *structs.TaskEvent) bool {
	work := b.Details[hooks.ProgressKey]
	return work != "" && a.Type == b.Type && a.Details[hooks.ProgressKey] == work
}
