package lifecycle

import (
	"strings"
	"testing"

	"berth/structs"
)

func TestSummarizeTasks_ByTheirStates(t *testing.T) {
	p, r := structs.TaskPending, structs.TaskRunning
	for _, tc := range []struct {
		states string // one word per task; a ! marks it as failed
		want   string
	}{
		{p + " " + p, structs.AllocPending}, {p + " " + r, structs.AllocRunning},
		{"dead " + r, structs.AllocRunning},
		{"!dead " + r, structs.AllocRunning}, {"!dead " + p, structs.AllocPending},
		{"!dead dead", structs.AllocFailed},
		{"dead dead", structs.AllocComplete},
	} {
		tasks := map[string]*structs.TaskState{}
		for i, word := range strings.Fields(tc.states) {
			state, failed := strings.CutPrefix(word, "!")
			tasks[string(rune('a'+i))] = &structs.TaskState{
				State:  state,
				Failed: failed,
			}
		}
		if got, _ := summarizeTasks(tasks); got != tc.want {
			t.Errorf("%s: got %s, want %s", tc.states, got, tc.want)
		}
	}
}

func TestSummarize_TellsWhatTheTasksDoNot(t *testing.T) {
	all := Marks{Restarting: true, Expired: true, Failure: "no disk", Progress: "waits"}
	notRestarting := all
	notRestarting.Restarting = false
	onlyFailure := Marks{Failure: "no disk"}
	const completed = "All tasks have completed"
	for _, c := range []struct {
		task               structs.TaskState
		marks              Marks
		state, description string
	}{
		{structs.TaskState{State: structs.TaskDead}, all, structs.AllocPending, "All tasks are restarting"},
		{structs.TaskState{State: structs.TaskDead}, notRestarting, structs.AllocComplete, expiredDescription},
		{structs.TaskState{State: structs.TaskDead}, onlyFailure, structs.AllocComplete, completed},
		{structs.TaskState{State: structs.TaskDead, Failed: true}, notRestarting, structs.AllocFailed, "no disk"},
		{structs.TaskState{State: structs.TaskDead, Failed: true}, Marks{}, structs.AllocFailed, "Failed tasks"},
		{structs.TaskState{State: structs.TaskPending}, all, structs.AllocPending, "waits"},
		{structs.TaskState{State: structs.TaskRunning}, all, structs.AllocRunning, "Tasks are running"},
	} {
		state, description := Summarize(map[string]*structs.TaskState{"a": &c.task}, c.marks)
		if state != c.state || description != c.description {
			t.Errorf("%+v, %+v: got %s, %q", c.task, c.marks, state, description)
		}
	}
}
