package allocrunner

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

func TestAppendEvent_KeepsTheNewest(t *testing.T) {
	s := &structs.TaskState{}
	for i := range 25 {
		appendEvent(s, &structs.TaskEvent{ExitCode: i})
	}
	if len(s.Events) != structs.MaxTaskEvents ||
		s.Events[0].ExitCode != 15 || s.Events[9].ExitCode != 24 {
		t.Errorf("%d events, from %d", len(s.Events), s.Events[0].ExitCode)
	}
}
