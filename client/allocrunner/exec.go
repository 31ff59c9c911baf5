package allocrunner

import (
	"berth/client/allocrunner/taskrunner"
	"berth/structs/jobaction"
)

// Exec finds the task in which a command is to run. "" is the only task of the allocation, or its leader. The
// error is invalid if no task is meant by the name, a conflict if the task does not run, and a failed
// precondition if its driver runs no commands. The command ends at the latest with the task.
func (r *Runner) Exec(name string) (taskrunner.ExecFunc, error) {
	t, err := r.record.taskList().forExec(r.id, name)
	if err != nil {
		return nil, err
	}
	return t.Control.Session()
}

// Action finds the task of an action, and returns the function that runs its command there, whatever command
// it is called with. The error is invalid if the allocation has no such action; see Exec for others.
func Action(r *Runner, at jobaction.Target) (taskrunner.ExecFunc, error) {
	action, err := jobaction.Find(r.Alloc(), at)
	if err != nil {
		return nil, err
	}
	t, err := r.record.taskList().forExec(r.id, action.TaskName)
	if err != nil {
		return nil, err
	}
	return taskrunner.Action(t, action)
}
