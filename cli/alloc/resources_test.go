package alloc

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"berth/cli/command"
	"berth/structs"
)

// TestPrintInlineVolumes_TellsWhetherTheyAreMounted: from the start of the first task to the end of all.
func TestPrintInlineVolumes_TellsWhetherTheyAreMounted(t *testing.T) {
	tasks := map[string]*structs.TaskState{"t": {StartedAt: time.Unix(1, 0)}, "later": {}}
	for _, a := range []struct {
		status  string
		tasks   map[string]*structs.TaskState
		mounted string
	}{
		{structs.AllocPending, map[string]*structs.TaskState{"t": nil, "later": {}}, "no"},
		{structs.AllocPending, tasks, "yes"},
		{structs.AllocRunning, tasks, "yes"},
		{structs.AllocFailed, tasks, "no"},
	} {
		group := &structs.TaskGroup{Name: "g", Volumes: map[string]*structs.VolumeRequest{
			"tmp": {
				Type: structs.VolumeTypeCSI, Lifecycle: structs.LifecycleInline, PluginID: "driver", Source: "j.g.tmp",
			},
			"data": {Type: structs.VolumeTypeCSI, Source: "other"},
		}}
		var out bytes.Buffer
		c := &command.Call{Stdio: command.Stdio{Out: &out}, Command: &command.Command{Renders: true}}
		printInlineVolumes(c, &structs.Allocation{
			TaskGroup:    "g",
			Job:          &structs.Job{TaskGroups: []*structs.TaskGroup{group}},
			ClientStatus: a.status,
			TaskStates:   a.tasks,
		})
		_, rows, _ := strings.Cut(out.String(), "Mounted")
		want := "tmp j.g.tmp driver no " + a.mounted
		got := strings.Join(strings.Fields(rows), " ")
		if !strings.Contains(out.String(), "Inline volumes") || got != want {
			t.Errorf("an allocation that is %s: the rows are %q, want %q", a.status, got, want)
		}
	}
}
