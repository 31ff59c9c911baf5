package allocrunner

import "berth/structs"

// summarizeTasks sums up the states of an allocation's tasks. The sum is terminal only when every task is
// dead: until then a task may still use a resource of the allocation.
func summarizeTasks(tasks map[string]*structs.TaskState) (state, description string) {
	var pending, running, dead, failed int
	for _, t := range tasks {
		switch t.State {
		case structs.TaskRunning:
			running++
		case structs.TaskDead:
			dead++
		default:
			pending++
		}
		if t.Failed {
			failed++
		}
	}
	switch {
	case dead == len(tasks) && failed > 0:
		return structs.AllocFailed, "Failed tasks"
	case dead == len(tasks):
		return structs.AllocComplete, "All tasks have completed"
	case running > 0:
		return structs.AllocRunning, "Tasks are running"
	default:
		return structs.AllocPending, "No tasks have started"
	}
}

// appendEvent adds an event to a task's state, dropping the oldest beyond structs.MaxTaskEvents.
func appendEvent(s *structs.TaskState, e *structs.TaskEvent) {
	s.Events = append(s.Events, e)
	if n := len(s.Events); n > structs.MaxTaskEvents {
		s.Events = append([]*structs.TaskEvent(nil), s.Events[n-structs.MaxTaskEvents:]...)
	}
}
