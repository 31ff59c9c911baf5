package allocrunner

import (
	"context"

	"berth/client/allocrunner/lifecycle"
	"berth/client/drivers/driver"
	"berth/structs"
)

// These methods of task implement hook.Control.

// Emit records a task event.
func (t *task) Emit(e *structs.TaskEvent) {
	t.record.emit(e)
}

// Restart orders a restart under the restart policy.
func (t *task) Restart(reason string) { t.orderRestart(lifecycle.Ending{Reason: reason}) }

// RestartNow orders a restart without the policy.
func (t *task) RestartNow(reason string) {
	t.orderRestart(lifecycle.Ending{Reason: reason, Wanted: true})
}

// orderRestart passes an order on to the task's goroutine. The task remembers one order at a time.
func (t *task) orderRestart(order lifecycle.Ending) {
	select {
	case t.restarts <- order:
	default:
	}
}

// Signal sends a signal to the process.
func (t *task) Signal(ctx context.Context, signal string) error {
	d, err := t.runningDriver()
	if err != nil {
		return err
	}
	return d.Signal(ctx, t.id, structs.SignalName(signal))
}

// Exec runs a command in the task.
func (t *task) Exec(ctx context.Context, x *driver.ExecConfig) (*driver.ExitResult, error) {
	execer, err := t.execer()
	if err != nil {
		return nil, err
	}
	return t.exec(ctx, execer, x)
}

// Fail stops the task for good, as failed.
func (t *task) Fail(eventType, reason string) {
	t.kill(lifecycle.Cause{Reason: reason, Event: eventType, Failed: true})
}

// runningDriver returns the driver of the running process. The error is a conflict if there is none.
func (t *task) runningDriver() (driver.Driver, error) {
	rec := t.record.get()
	if !rec.runs() {
		return nil, t.notRunning()
	}
	return t.shared.Drivers.Driver(rec.Handle.Driver)
}

// execer returns the driver of the running process if it runs commands.
func (t *task) execer() (driver.Execer, error) {
	d, err := t.runningDriver()
	if err != nil {
		return nil, err
	}
	execer, ok := d.(driver.Execer)
	if !ok {
		return nil, structs.Preconditionf("the driver %s runs no commands in its tasks", d.Name())
	}
	return execer, nil
}
