package lifecycle

import (
	"testing"
	"time"

	"berth/structs"
)

func TestLookAt_ReadsTheStatesOfTasks(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	rule := &structs.HealthRule{MinTime: 10 * time.Second, Deadline: time.Minute}
	main := &structs.Task{Name: "main"}
	before := &structs.Task{Name: "before", Lifecycle: &structs.TaskLifecycle{Hook: structs.LifecyclePrestart}}
	after := &structs.Task{Name: "after", Lifecycle: &structs.TaskLifecycle{Hook: structs.LifecyclePoststop}}
	plugin := &structs.Task{Name: "main", CSIPluginConfig: &structs.CSIPluginConfig{ID: "p"}}
	running := &structs.TaskState{State: structs.TaskRunning, StartedAt: at(5)}
	event := func(kind string, s int) *structs.TaskEvent {
		return &structs.TaskEvent{Type: kind, Time: at(s).UnixNano()}
	}
	withEvents := func(events ...*structs.TaskEvent) *structs.TaskState {
		s := running.Copy()
		s.Events = events
		return s
	}
	for name, c := range map[string]struct {
		tasks  []*structs.Task
		states map[string]*structs.TaskState
		want   Look
	}{
		"a task that runs": {
			[]*structs.Task{main, after}, map[string]*structs.TaskState{"main": running},
			Look{Healthy: at(15), Deadline: at(60)},
		},
		"a task that waits": {
			[]*structs.Task{before, main},
			map[string]*structs.TaskState{"before": running, "main": {State: structs.TaskPending}},
			Look{Deadline: at(60)},
		},
		"a task that has prepared others": {
			[]*structs.Task{before, main},
			map[string]*structs.TaskState{"before": {State: structs.TaskDead, FinishedAt: at(3)}, "main": running},
			Look{Healthy: at(15), Deadline: at(60)},
		},
		"a task that could not prepare them": {
			[]*structs.Task{before, main},
			map[string]*structs.TaskState{"before": {State: structs.TaskDead, Failed: true}, "main": running},
			Look{Failed: true},
		},
		"a main task that has ended": {
			[]*structs.Task{main}, map[string]*structs.TaskState{"main": {State: structs.TaskDead}},
			Look{Failed: true},
		},
		"a plugin that is healthy": {
			[]*structs.Task{plugin}, map[string]*structs.TaskState{
				"main": withEvents(event(structs.TaskEventStarted, 5), event(structs.TaskEventPluginHealthy, 9)),
			},
			Look{Healthy: at(19), Deadline: at(60)},
		},
		"a plugin whose new process is not healthy yet": {
			[]*structs.Task{plugin}, map[string]*structs.TaskState{
				"main": withEvents(event(structs.TaskEventPluginHealthy, 1), event(structs.TaskEventStarted, 5)),
			},
			Look{Deadline: at(60)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := LookAt(rule, c.tasks, c.states, start)
			if !got.Healthy.Equal(c.want.Healthy) || !got.Deadline.Equal(c.want.Deadline) ||
				got.Failed != c.want.Failed {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}
