package lifecycle

import "berth/structs"

// expiredDescription is the dialect's text for an allocation that its max_run_duration has ended.
const expiredDescription = "allocation exceeded max_run_duration"

// Marks are the facts about an allocation that the states of its tasks do not show.
type Marks struct {
	Restarting bool   // all tasks are being stopped to be started again
	Expired    bool   // it is to end because of its max_run_duration
	Failure    string // the reason for its failure, if it failed as a whole
	Progress   string // the reason for which its set-up waits
}

// Summarize returns the state of an allocation for the servers.
func Summarize(tasks map[string]*structs.TaskState, marks Marks) (state, description string) {
	state, description = summarizeTasks(tasks)
	switch {
	case marks.Restarting && (state == structs.AllocComplete || state == structs.AllocFailed):
		return structs.AllocPending, "All tasks are restarting"
	case marks.Expired && state == structs.AllocComplete:
		return state, expiredDescription
	case marks.Failure != "" && state == structs.AllocFailed:
		return state, marks.Failure
	case marks.Progress != "" && state == structs.AllocPending:
		return state, marks.Progress
	}
	return state, description
}

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
