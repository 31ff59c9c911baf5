package allocrunner

import (
	"context"
	"fmt"
	"sync"
	"time"

	"berth/client/allocrunner/lifecycle"
	"berth/client/drivers/driver"
	"berth/structs"
)

// signalTimeout bounds one call of a driver that sends a signal.
const signalTimeout = 10 * time.Second

// control acts on the running process of a task: for its hooks and checks, as hooks.Control, and for users.
// Each of its methods may be called at any time, by any goroutine.
type control struct {
	shared *shared
	name   string
	id     string // the driver's: "<alloc id>/<task>"
	record *recordKeeper
	// restarts has the order to restart that the task's goroutine has not read yet.
	restarts chan lifecycle.Ending
	kill     context.CancelCauseFunc
	dead     <-chan struct{}
}

// Emit records a task event.
func (c *control) Emit(e *structs.TaskEvent) {
	c.record.emit(e)
}

// Restart orders a restart under the restart policy.
func (c *control) Restart(reason string) { c.orderRestart(lifecycle.Ending{Reason: reason}) }

// RestartNow orders a restart without the policy.
func (c *control) RestartNow(reason string) {
	c.orderRestart(lifecycle.Ending{Reason: reason, Wanted: true})
}

// orderRestart passes an order on to the task's goroutine. The task remembers one order at a time.
func (c *control) orderRestart(order lifecycle.Ending) {
	select {
	case c.restarts <- order:
	default:
	}
}

// Signal sends a signal to the process.
func (c *control) Signal(ctx context.Context, signal string) error {
	d, err := c.runningDriver()
	if err != nil {
		return err
	}
	return d.Signal(ctx, c.id, structs.SignalName(signal))
}

// Exec runs a command in the task.
func (c *control) Exec(ctx context.Context, x *driver.ExecConfig) (*driver.ExitResult, error) {
	execer, err := c.execer()
	if err != nil {
		return nil, err
	}
	return c.exec(ctx, execer, x)
}

// Fail stops the task for good, as failed.
func (c *control) Fail(eventType, reason string) {
	c.kill(lifecycle.Cause{Reason: reason, Event: eventType, Failed: true})
}

// runningDriver returns the driver of the running process. The error is a conflict if there is none.
func (c *control) runningDriver() (driver.Driver, error) {
	rec := c.record.get()
	if !rec.runs() {
		return nil, c.notRunning()
	}
	return c.shared.Drivers.Driver(rec.Handle.Driver)
}

// execer returns the driver of the running process if it runs commands.
func (c *control) execer() (driver.Execer, error) {
	d, err := c.runningDriver()
	if err != nil {
		return nil, err
	}
	execer, ok := d.(driver.Execer)
	if !ok {
		return nil, structs.Preconditionf("the driver %s runs no commands in its tasks", d.Name())
	}
	return execer, nil
}

func (c *control) notRunning() error {
	return structs.Conflictf("task %q of allocation %s is %s, not running",
		c.name, c.shared.AllocID, c.record.state().State)
}

func (c *control) signalForUser(ctx context.Context, signal string) error {
	c.Emit(newEvent(structs.TaskEventSignaling, "Task being sent signal %s: a user requested it", signal))
	ctx, cancel := context.WithTimeout(ctx, signalTimeout)
	defer cancel()
	err := c.Signal(ctx, signal)
	if err != nil {
		return fmt.Errorf("sending %s to task %q of allocation %s: %w", signal, c.name, c.shared.AllocID, err)
	}
	return nil
}

// exec runs a command until its end, that of ctx, or that of the task. A driver sees the end of the task by
// itself, except one that hangs.
func (c *control) exec(
	ctx context.Context, d driver.Execer, x *driver.ExecConfig,
) (*driver.ExitResult, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-c.dead:
			cancel(structs.Conflictf("task %q has ended", c.name))
		case <-ctx.Done():
		}
	})
	defer watching.Wait()
	defer cancel(nil)
	result, err := d.Exec(ctx, c.id, x)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return result, err
}
