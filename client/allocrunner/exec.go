package allocrunner

import (
	"slices"
	"strings"

	"berth/client/allocrunner/taskrunner"
	"berth/structs"
)

// Exec finds the task in which a command is to run. "" is the only task of the allocation, or its leader. The
// error is invalid if no task is meant by the name, a conflict if the task does not run, and a failed
// precondition if its driver runs no commands. The command ends at the latest with the task.
func (r *Runner) Exec(name string) (taskrunner.ExecFunc, error) {
	t, err := r.taskToExec(name)
	if err != nil {
		return nil, err
	}
	return t.Control.Session()
}

func (r *Runner) taskToExec(name string) (*taskrunner.Task, error) {
	tasks := r.taskList()
	if name != "" || len(tasks) == 1 {
		found, err := r.chooseTasks(name)
		if err != nil {
			return nil, err
		}
		return found[0], nil
	}

	at := slices.IndexFunc(tasks, func(t *taskrunner.Task) bool { return t.Spec().Leader })
	if at >= 0 {
		return tasks[at], nil
	}

	var names []string
	for _, t := range tasks {
		names = append(names, t.Name)
	}

	return nil, structs.Invalidf("allocation %s has %d tasks and no leader; name one of: %s",
		r.id, len(names), strings.Join(names, ", "))
}
