package taskrunner

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client/allocrunner/lifecycle"
	"berth/client/drivers/driver"
	"berth/structs"
)

// signalTimeout bounds one call of a driver that sends a signal.
const signalTimeout = 10 * time.Second

// Control acts on the running process of a task: for its hooks and checks, as hooks.Control, and for users.
// Each of its methods may be called at any time, by any goroutine.
type Control struct {
	shared *Shared
	name   string
	id     string // the driver's: "<alloc id>/<task>"
	logger hclog.Logger
	record *recordKeeper
	// restarts has the order to restart that the task's goroutine has not read yet.
	restarts chan lifecycle.Ending
	kill     context.CancelCauseFunc
	dead     <-chan struct{}
}

// Emit records a task event.
func (c *Control) Emit(e *structs.TaskEvent) {
	c.record.emit(e)
}

// Restart orders a restart under the restart policy.
func (c *Control) Restart(reason string) { c.orderRestart(lifecycle.Ending{Reason: reason}) }

// RestartNow orders a restart without the policy.
func (c *Control) RestartNow(reason string) {
	c.orderRestart(lifecycle.Ending{Reason: reason, Wanted: true})
}

// orderRestart passes an order on to the task's goroutine. The task remembers one order at a time.
func (c *Control) orderRestart(order lifecycle.Ending) {
	select {
	case c.restarts <- order:
	// The order that is not read yet restarts the process for this one, too.
	default:
	}
}

// dropRestart drops an order for an earlier process, which has ended by itself.
func (c *Control) dropRestart() {
	select {
	case <-c.restarts:
	default:
	}
}

// Signal sends a signal to the process.
func (c *Control) Signal(ctx context.Context, signal string) error {
	d, err := c.runningDriver()
	if err != nil {
		return err
	}
	return d.Signal(ctx, c.id, structs.SignalName(signal))
}

// Exec runs a command in the task.
func (c *Control) Exec(ctx context.Context, x *driver.ExecConfig) (*driver.ExitResult, error) {
	execer, err := c.execer()
	if err != nil {
		return nil, err
	}
	return c.exec(ctx, execer, x)
}

// Fail stops the task for good, as failed.
func (c *Control) Fail(eventType, reason string) {
	c.kill(lifecycle.Cause{Reason: reason, Event: eventType, Failed: true})
}

// runningDriver returns the driver of the running process. The error is a conflict if there is none.
func (c *Control) runningDriver() (driver.Driver, error) {
	rec := c.record.get()
	if !rec.runs() {
		return nil, c.NotRunning()
	}
	// The driver that started the process has to reach it.
	return c.shared.Drivers.Driver(rec.Handle.Driver)
}

// execer returns the driver of the running process if it runs commands.
func (c *Control) execer() (driver.Execer, error) {
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

// NotRunning returns the error for a task that does not run.
func (c *Control) NotRunning() error {
	return structs.Conflictf("task %q of allocation %s is %s, not running",
		c.name, c.shared.AllocID, c.record.state().State)
}

// SignalForUser is Signal with an event that tells of it.
func (c *Control) SignalForUser(ctx context.Context, signal string) error {
	c.Emit(newEvent(structs.TaskEventSignaling, "Task being sent signal %s: a user requested it", signal))
	ctx, cancel := context.WithTimeout(ctx, signalTimeout)
	defer cancel()
	err := c.Signal(ctx, signal)
	if err != nil {
		return fmt.Errorf("sending %s to task %q of allocation %s: %w", signal, c.name, c.shared.AllocID, err)
	}
	return nil
}

// ExecFunc runs a command in a task, see driver.Execer.
type ExecFunc func(ctx context.Context, x *driver.ExecConfig) (*driver.ExitResult, error)

// Session returns the function that runs a command in the task for a user. The error is a conflict if the
// task does not run, and a failed precondition if its driver runs no commands.
func (c *Control) Session() (ExecFunc, error) {
	execer, err := c.execer()
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, x *driver.ExecConfig) (*driver.ExitResult, error) {
		c.logger.Info("session started in the task", "tty", x.TTY)
		result, err := c.exec(ctx, execer, x)
		c.logger.Debug("session ended in the task", "tty", x.TTY, "error", err)
		return result, err
	}, nil
}

// exec runs a command until its end, or the end of ctx or of the task. A driver sees the end of the task by
// itself, except one that hangs.
func (c *Control) exec(
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
	// cancel runs before Wait and ends the goroutine.
	defer watching.Wait()
	defer cancel(nil)
	result, err := d.Exec(ctx, c.id, x)
	// The cause tells the end of the task from the caller's.
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return result, err
}
