package allocrunner

import (
	"context"
	"slices"
	"strings"

	"berth/client/drivers/driver"
	"berth/structs"
)

// ExecFunc runs a command in a task, see driver.Execer.
type ExecFunc func(ctx context.Context, x *driver.ExecConfig) (*driver.ExitResult, error)

// Exec finds the task in which a command is to run. "" is the only task of the allocation, or its leader. The
// error is invalid if no task is meant by the name, a conflict if the task does not run, and a failed
// precondition if its driver runs no commands. The command ends at the latest with the task.
func (r *Runner) Exec(name string) (ExecFunc, error) {
	t, err := r.taskToExec(name)
	if err != nil {
		return nil, err
	}
	execer, err := t.control.execer()
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, x *driver.ExecConfig) (*driver.ExitResult, error) {
		t.logger.Info("session started in the task", "tty", x.TTY)
		result, err := t.control.exec(ctx, execer, x)
		t.logger.Debug("session ended in the task", "tty", x.TTY, "error", err)
		return result, err
	}, nil
}

func (r *Runner) taskToExec(name string) (*task, error) {
	tasks := r.taskList()
	if name != "" || len(tasks) == 1 {
		found, err := r.chooseTasks(name)
		if err != nil {
			return nil, err
		}
		return found[0], nil
	}

	at := slices.IndexFunc(tasks, func(t *task) bool { return t.spec().Leader })
	if at >= 0 {
		return tasks[at], nil
	}

	var names []string
	for _, t := range tasks {
		names = append(names, t.name)
	}

	return nil, structs.Invalidf("allocation %s has %d tasks and no leader; name one of: %s",
		r.id, len(names), strings.Join(names, ", "))
}
