package lifecycle

import (
	"strings"
	"testing"

	"berth/structs"
)

// taskOf is a task with a lifecycle.
func taskOf(name, hook string, sidecar bool) *structs.Task {
	t := &structs.Task{Name: name}
	if hook != "" {
		t.Lifecycle = &structs.TaskLifecycle{Hook: hook, Sidecar: sidecar}
	}
	return t
}

// oneOfEach are tasks of each kind: first, side, main, late, beside and after.
func oneOfEach() []Member {
	var members []Member
	for _, t := range []*structs.Task{
		taskOf("first", structs.LifecyclePrestart, false),
		taskOf("side", structs.LifecyclePrestart, true),
		taskOf("main", "", false),
		taskOf("late", structs.LifecyclePoststart, false),
		taskOf("beside", structs.LifecyclePoststart, true),
		taskOf("after", structs.LifecyclePoststop, false),
	} {
		members = append(members, Member{Task: t, State: &structs.TaskState{State: structs.TaskPending}})
	}
	return members
}

// setStates sets the states of the first members by words; a ! marks a failure.
func setStates(members []Member, words string) {
	for i, word := range strings.Fields(words) {
		state, failed := strings.CutPrefix(word, "!")
		members[i].State = &structs.TaskState{State: state, Failed: failed}
		members[i].Ran = state != structs.TaskPending
	}
}

func TestRound_GatesOpenByTheStatesOfTasks(t *testing.T) {
	for _, c := range []struct {
		states          string // of first, side and main
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
		members := oneOfEach()
		setStates(members, c.states)
		rd := NewRound(NewOrders())
		rd.OpenGates(members)
		main, poststart := rd.main.IsOpen(), rd.poststart.IsOpen()
		if main != c.main || poststart != c.poststart {
			t.Errorf("%s: got %t and %t, want %t and %t", c.states, main, poststart, c.main, c.poststart)
		}
	}
}

func TestRound_EachTaskHasTheGateOfItsHook(t *testing.T) {
	rd := NewRound(NewOrders())
	for name, want := range map[string]*Gate{
		"first": nil, "side": nil, "main": rd.main, "late": rd.poststart, "beside": rd.poststart,
	} {
		for _, m := range oneOfEach() {
			if m.Task.Name == name && rd.GateOf(m.Task) != want {
				t.Errorf("%s has the gate of another hook", name)
			}
		}
	}
}

func TestMembers_AnswerByTheStatesOfTasks(t *testing.T) {
	for _, c := range []struct {
		states                                 string
		running, dead, sidecarsLeft, poststops bool
	}{
		{"pending pending pending pending pending pending", false, false, false, false},
		{"dead running running dead running pending", true, false, false, true},
		{"dead running dead dead running pending", true, false, true, true},
		{"dead dead dead dead dead running", true, false, true, true},
		{"!dead dead dead dead dead dead", false, true, true, false},
	} {
		members := oneOfEach()
		setStates(members, c.states)
		for question, got := range map[string][2]bool{
			"a task runs":                {AnyRunning(members), c.running},
			"all tasks are dead":         {AllDead(members), c.dead},
			"only sidecars are left":     {OnlySidecarsLeft(members), c.sidecarsLeft},
			"a poststop task has to run": {PoststopDue(members), c.poststops},
		} {
			if got[0] != got[1] {
				t.Errorf("%s: %s: got %t, want %t", c.states, question, got[0], got[1])
			}
		}
	}
}

func TestStopRank_SidecarsAreLast(t *testing.T) {
	side := taskOf("side", structs.LifecyclePrestart, true)
	leader := &structs.Task{Name: "side", Lifecycle: side.Lifecycle, Leader: true}
	for name, c := range map[string]struct {
		first, now *structs.Task
		want       int
	}{
		"a leader":                    {side, leader, 0},
		"a main task":                 {taskOf("main", "", false), &structs.Task{}, 1},
		"a sidecar":                   {side, side, 2},
		"one that became no sidecar":  {side, &structs.Task{}, 2},
		"one that is of poststart":    {taskOf("late", structs.LifecyclePoststart, false), &structs.Task{}, 1},
		"one that has become sidecar": {taskOf("main", "", false), side, 1},
	} {
		if got := StopRank(c.first, c.now); got != c.want {
			t.Errorf("%s: got the rank %d, want %d", name, got, c.want)
		}
	}
}
