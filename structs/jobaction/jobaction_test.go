package jobaction

import (
	"reflect"
	"strings"
	"testing"

	"berth/structs"
)

// web is a job whose tasks server and db of the group g have the action dump, and db the action grow. The
// task other of the group h has the action alone.
func web() *structs.Job {
	return &structs.Job{
		ID:        "web",
		Namespace: "team",
		Version:   3,
		TaskGroups: []*structs.TaskGroup{
			{Name: "g", Tasks: []*structs.Task{
				{Name: "server", Actions: []*structs.Action{{Name: "dump", Command: "/a"}}},
				{Name: "db", Actions: []*structs.Action{
					{Name: "dump", Command: "/b"},
					{Name: "grow", Command: "/c", Args: []string{"-x"}},
				}},
			}},
			{Name: "h", Tasks: []*structs.Task{
				{Name: "other", Actions: []*structs.Action{{Name: "alone", Command: "/d"}}},
			}},
		},
	}
}

func TestList_HasThePlacesOfActions(t *testing.T) {
	got := List(web())
	want := JobAction{"grow", "/c", []string{"-x"}, "db", "g"}
	if len(got) != 4 || !reflect.DeepEqual(*got[2], want) {
		t.Errorf("got %+v", got)
	}
	if none := List(&structs.Job{}); none == nil || len(none) > 0 {
		t.Errorf("a job without actions: %#v, want an empty list", none)
	}
}

// checkError fails the test unless an error is invalid and has a text. No text means no error.
func checkError(t *testing.T, what any, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err == nil:
	case err == nil || want == "" || !strings.Contains(err.Error(), want),
		!structs.IsKind(err, structs.KindInvalid):
		t.Errorf("%+v: got %v, want %q", what, err, want)
	}
}

func TestFind_NamesOneActionOfTheAllocation(t *testing.T) {
	alloc := &structs.Allocation{ID: "a1", Namespace: "team", JobID: "web", TaskGroup: "g", Job: web()}
	for at, want := range map[Target]string{
		{Action: "grow"}:                                      "/c",
		{Action: "dump", Task: "db"}:                          "/b",
		{Action: "dump", Task: "server", Group: "g"}:          "/a",
		{Action: "grow", JobID: "web", Namespace: "team"}:     "/c",
		{Action: "dump"}:                                      "!name the group and the task of one: g/server, g/db",
		{Action: "alone"}:                                     "!are, each after its task: db/dump, db/grow, server/dump",
		{Action: "grow", Task: "server"}:                      `!task server of allocation a1 has no action "grow"`,
		{Action: "grow", Group: "h"}:                          `!is of group "g", not of "h"`,
		{Action: "grow", JobID: "api", Namespace: "team"}:     `!is not of job "api" in namespace "team"`,
		{Action: "grow", JobID: "web"}:                        `!is not of job "web" in namespace "default"`,
		{Action: "grow", JobID: "web", Namespace: "other"}:    `!is not of job "web" in namespace "other"`,
		{Action: strings.Repeat("x", 4*structs.MaxQuoted+99)}: "!" + strings.Repeat("x", 9),
	} {
		got, err := Find(alloc, at)
		fault, _ := strings.CutPrefix(want, "!")
		if !strings.HasPrefix(want, "!") {
			fault = ""
		}
		checkError(t, at, err, fault)
		if err == nil && got.Command != want {
			t.Errorf("%+v: got %+v, want %s", at, got, want)
		}
		if err != nil && len(err.Error()) > 300 {
			t.Errorf("the error has %d bytes", len(err.Error()))
		}
	}
	alloc.Job = &structs.Job{}
	_, err := Find(alloc, Target{Action: "grow"})
	checkError(t, "a job without actions", err, "it has no actions; add a block action to a task")
}

// stub is an allocation of the job web whose task db has a state.
func stub(id, status, task string, version, index uint64) *structs.AllocListStub {
	return &structs.AllocListStub{
		ID:           id,
		TaskGroup:    "g",
		ClientStatus: status,
		JobVersion:   version,
		TaskStates:   map[string]*structs.TaskState{"db": {State: task}},
		Indexes:      structs.Indexes{CreateIndex: index},
	}
}

func TestPick_PrefersTheVersionOfTheJobThenTheLatest(t *testing.T) {
	grow := Target{Action: "grow", JobID: "web", Namespace: "team"}
	stubs := []*structs.AllocListStub{
		stub("lost", structs.AllocLost, structs.TaskRunning, 3, 95),
		stub("ended", structs.AllocComplete, structs.TaskDead, 3, 90),
		stub("waits", structs.AllocRunning, structs.TaskPending, 3, 80),
		stub("former", structs.AllocRunning, structs.TaskRunning, 2, 70),
		stub("early", structs.AllocRunning, structs.TaskRunning, 3, 10),
		stub("late", structs.AllocRunning, structs.TaskRunning, 3, 20),
		stub("like-late", structs.AllocRunning, structs.TaskRunning, 3, 20),
	}
	other := stub("other", structs.AllocRunning, structs.TaskRunning, 3, 99)
	other.TaskGroup = "h"
	for n, want := range map[int]string{7: "late", 5: "early", 4: "former"} {
		got, err := Pick(web(), append(stubs[:n:n], other), grow)
		placed := grow
		placed.AllocID = want
		placed.Group = "g"
		placed.Task = "db"
		if err != nil || got != placed {
			t.Errorf("of %d: got %+v, %v; want %s", n, got, err, want)
		}
	}
	_, err := Pick(web(), stubs[:3], grow)
	const look = "an action needs a running task; see: berth job allocs -namespace team web"
	if !structs.IsKind(err, structs.KindConflict) || !strings.Contains(err.Error(), look) {
		t.Errorf("without a running task: %v", err)
	}
	for at, want := range map[Target]string{
		{Action: "dump"}:               "name the group and the task of one: g/server, g/db",
		{Action: "none"}:               `job web has no action "none"`,
		{Action: "alone", Group: "g"}:  `job web has no action "alone"`,
		{Action: "alone", Task: "db"}:  `task db of job web has no action "alone"`,
		{Action: "dump", Group: "h"}:   `job web has no action "dump"`,
		{Action: "dump", Task: "none"}: `task none of job web has no action "dump"`,
	} {
		_, err := Pick(web(), stubs, at)
		checkError(t, at, err, want)
	}
}
