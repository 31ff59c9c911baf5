package drainer

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"berth/state"
	"berth/structs"
)

// stopping tells what an allocation that is being stopped waits for: its tasks, with the times that they have
// for it.
func (p *planner) stopping(a *structs.Allocation) string {
	tasks := TasksLeft(p.tx, a)
	if len(tasks) == 0 {
		return cmp.Or(a.ClientDescription, "its tasks have not ended yet")
	}
	return "waits for " + strings.Join(tasks, ", ")
}

// TasksLeft describes the tasks of an allocation that have begun and not ended, with the times that its job
// gives them to end: "task t (kill_timeout 30s, shutdown_delay 5s)".
func TasksLeft(tx *state.ReadTx, a *structs.Allocation) (tasks []string) {
	j := state.JobOf(tx, a)
	if j == nil || j.Group(a.TaskGroup) == nil {
		return nil
	}

	g := j.Group(a.TaskGroup)
	for _, t := range g.Tasks {
		s := a.TaskStates[t.Name]
		if s == nil || s.State != structs.TaskRunning {
			continue
		}

		var times []string
		note := func(name string, d time.Duration) {
			if d > 0 {
				times = append(times, fmt.Sprintf("%s %s", name, d))
			}
		}

		note("kill_timeout", t.KillTimeout)
		if !a.NoShutdownDelay {
			note("shutdown_delay", t.ShutdownDelay)
			if g.ShutdownDelay != nil {
				note("shutdown_delay of the group", *g.ShutdownDelay)
			}
		}

		text := "task " + t.Name
		if len(times) > 0 {
			text += " (" + strings.Join(times, ", ") + ")"
		}

		tasks = append(tasks, text)
	}

	return tasks
}
