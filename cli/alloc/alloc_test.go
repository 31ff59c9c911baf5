package alloc

import (
	"bytes"
	"strings"
	"testing"

	"berth/cli/command"
	"berth/structs"
)

func TestPrintTask_StateOfALostAllocationIsUnknown(t *testing.T) {
	for status, want := range map[string]string{
		structs.AllocRunning: "State = running\n",
		structs.AllocLost:    "State = unknown; it was running at the last heartbeat of its node\n",
	} {
		var out bytes.Buffer
		c := &command.Call{
			Stdio:   command.Stdio{Out: &out},
			Command: &command.Command{Renders: true},
		}
		printTask(c, "t", &structs.TaskState{State: structs.TaskRunning}, status)
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s: got %q, want %q", status, out.String(), want)
		}
	}
}

func TestTaskTitle_HasTheLifecycle(t *testing.T) {
	g := &structs.TaskGroup{Tasks: []*structs.Task{
		{Name: "main"},
		{Name: "first", Lifecycle: &structs.TaskLifecycle{Hook: "prestart"}},
		{Name: "side", Lifecycle: &structs.TaskLifecycle{Hook: "poststart", Sidecar: true}},
	}}
	for name, want := range map[string]string{
		"main":  `Task "main"`,
		"first": `Task "first" (prestart)`,
		"side":  `Task "side" (poststart sidecar)`,
		"gone":  `Task "gone"`,
	} {
		if got := taskTitle(g, name); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := taskTitle(nil, "x"); got != `Task "x"` {
		t.Errorf("without a group: got %q", got)
	}
}
