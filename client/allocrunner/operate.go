package allocrunner

import (
	"context"
	"errors"

	"berth/client/allocrunner/lifecycle"
	"berth/structs"
)

// Report adds an event to each task.
func (r *Runner) Report(message string) {
	for _, t := range r.record.taskList() {
		t.Report(message)
	}
}

// RestartTasks stops the processes of the tasks that run, or of the one with the name, and starts them again.
// It does not wait, and the restarts do not count for the restart policy. The error is invalid if the
// allocation has no such task, and a conflict if it does not run.
func (r *Runner) RestartTasks(name string) error {
	tasks, err := r.record.taskList().running(r.id, name)
	for _, t := range tasks {
		t.Control.RestartNow("a user requested the restart")
	}
	return err
}

// SignalTasks sends a signal to the tasks that run, or to the one with the name. It has the errors of
// RestartTasks, and invalid for an unknown signal.
func (r *Runner) SignalTasks(ctx context.Context, task, signal string) error {
	sig, err := structs.ParseSignal(signal)
	if err != nil {
		return err
	}
	tasks, err := r.record.taskList().running(r.id, task)
	for _, t := range tasks {
		err = errors.Join(err, t.Control.SignalForUser(ctx, sig))
	}
	return err
}

// RestartAll stops all tasks and starts them again in the order of their lifecycles, also ended ones, except
// the poststop tasks. It does not wait, and the restarts do not count for the restart policy. The error is a
// conflict if the allocation is not running.
func (r *Runner) RestartAll() error {
	if r.Stopping() {
		return r.mayNotRestart()
	}

	if !r.phases.Has(lifecycle.HooksUp) {
		return structs.Conflictf("allocation %s is not set up yet; retry when its hooks are up", r.id)
	}

	rd, err := r.record.saveRestart()
	switch {
	case err != nil:
		return err
	case rd == nil:
		return r.mayNotRestart()
	}

	rd.Stop(lifecycle.RestartAll)
	return nil
}

func (r *Runner) mayNotRestart() error {
	return structs.Conflictf("allocation %s is %s; expected a running allocation that is not being stopped",
		r.id, r.ClientState().ClientStatus)
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
