package allocrunner

import (
	"strings"
	"testing"

	"berth/structs"
)

func TestRound_GatesOpenByTheStatesOfTasks(t *testing.T) {
	for _, c := range []struct {
		states          string // of first, side and main; a ! marks a failure
		main, poststart bool
	}{
		{"pending pending pending", false, false},
		{"running running pending", false, false},
		{"dead pending pending", false, false},
		{"!dead running pending", false, false},
		{"dead dead pending", true, false}, // a sidecar that was stopped
		{"dead !dead pending", false, false},
		{"dead running pending", true, false},
		{"dead running running", true, true},
		{"dead running dead", true, true},
		{"dead running !dead", true, false},
		{"running running running", false, false},
	} {
		inVirtualTime(t, func(t *testing.T) {
			a := newFixture(t).agent()
			defer a.stop()
			r, err := New(a.deps, lifecycleAlloc())
			if err != nil {
				t.Fatal(err)
			}
			states := strings.Fields(c.states)
			for i, name := range []string{"first", "side", "main"} {
				state, failed := strings.CutPrefix(states[i], "!")
				tasks, err := r.chooseTasks(name)
				if err != nil {
					t.Fatal(err)
				}
				tasks[0].rec.State = &structs.TaskState{State: state, Failed: failed}
			}
			r.openGates()
			main, poststart := isClosed(r.round.main.opened), isClosed(r.round.poststart.opened)
			if main != c.main || poststart != c.poststart {
				t.Errorf("%s: got %t and %t, want %t and %t", c.states, main, poststart, c.main, c.poststart)
			}
		})
	}
}
