package taskrunner

import (
	"context"
	"errors"
	"sync"
	"time"

	"berth/client/allocrunner/lifecycle"
	"berth/client/drivers/driver"
	"berth/client/hooks"
	"berth/internal/placeholder"
	"berth/structs"
)

// start sets up the task's hooks and starts its process. If it reports false, the ending has the failure.
func (t *Task) start(ctx context.Context) (lifecycle.Ending, bool) {
	// A clean-up would undo the work of prepare.
	if !t.prepared {
		t.cleanUp(ctx)
	}

	if t.halt.Err() != nil || ctx.Err() != nil {
		return lifecycle.Ending{}, false
	}

	ctx, cancel := lifecycle.WhileWanted(ctx, t.halt)
	defer cancel()
	h, failure, err := t.startProcess(ctx)
	if err != nil {
		return t.recordStartFailure(ctx, failure, err), false
	}

	// If the agent is killed before this record, Starting is in the store: Reattach then looks for the
	// process by its ID.
	e := newEvent(structs.TaskEventStarted, "Task started by client")
	t.record.update(e, func(rec *taskRecord, s *structs.TaskState) {
		rec.markRunning(h)
		s.State = structs.TaskRunning
		s.StartedAt = time.Now()
	})

	t.logger.Info("task started", "pid", h.PID, "driver", h.Driver)
	return lifecycle.Ending{}, true
}

// startProcess sets up the task's hooks and starts its process. failure is the type of the event for an
// error.
func (t *Task) startProcess(ctx context.Context) (h *driver.Handle, failure string, err error) {
	t.env = t.nextEnv()
	cfg := t.env.Config
	if isDenied(t.shared.DeniedUsers, cfg.User) {
		err = structs.Deniedf("this node runs no task as user %q", cfg.User)
		return nil, structs.TaskEventSetupFailure, err
	}

	cfg.Proxy, err = t.builder.proxy(t.env.Task, variables(t.env.Variables))
	if err != nil {
		return nil, structs.TaskEventSetupFailure, err
	}

	if err := t.hooks.Up(ctx); err != nil {
		return nil, hookFailure(err), err
	}

	// Hooks add variables to the environment, for example a plugin's socket. The driver's config may refer to
	// them.
	cfg.Config = placeholder.InValues(cfg.Config, variables(cfg.Env).expand)
	d, err := t.shared.Drivers.Driver(t.env.Task.Driver)
	if err == nil {
		err = d.Validate(cfg.Config)
	}
	if err != nil {
		return nil, structs.TaskEventDriverFailure, err
	}

	// prepare has recorded it already.
	if !t.prepared {
		err = t.recordStarting()
	}
	if err != nil {
		return nil, structs.TaskEventSetupFailure, err
	}

	h, err = d.Start(ctx, cfg)
	return h, structs.TaskEventDriverFailure, err
}

// hookFailure returns the type of the event for the failure of a hook.
func hookFailure(err error) string {
	failure, ok := errors.AsType[*hooks.Failure](err)
	if ok {
		return failure.Event
	}
	return structs.TaskEventHookFailed
}

// recordStartFailure records why the process could not start, unless the task was to stop anyway. A failure
// that every retry would repeat is final.
func (t *Task) recordStartFailure(ctx context.Context, kind string, err error) lifecycle.Ending {
	if ctx.Err() == nil {
		t.logger.Warn("failed to start the task", "error", err)
		t.record.emit(newEvent(kind, "%v", err))
	}
	failure, ok := errors.AsType[*hooks.Failure](err)
	final := structs.IsKind(err, structs.KindInvalid) ||
		structs.IsKind(err, structs.KindDenied) ||
		errors.Is(err, errReadOnly) ||
		ok && failure.Final
	return lifecycle.Ending{Final: final, Reason: err.Error()}
}

// superviseProcess waits for the end of a running process. It stops the process when the task is killed or a
// hook requests a restart. It reports false if the task was killed or ctx ended.
func (t *Task) superviseProcess(ctx context.Context, d driver.Driver) (lifecycle.Ending, bool) {
	if !t.live { // a user may have asked to restart a live process already, which an earlier agent started
		t.Control.dropRestart()
	}

	p := t.newProcess(d)
	var wait sync.WaitGroup
	// stopWaiting runs before Wait: the Wait of the driver ends with its context.
	defer wait.Wait()
	waiting, stopWaiting := context.WithCancel(ctx)
	defer stopWaiting()
	wait.Go(func() { p.await(waiting) })
	running := t.startHooks(ctx)
	defer running.stopped()
	p.stopping = running.stopping
	t.OfferServices()
	defer func() {
		if ctx.Err() == nil { // otherwise the process keeps its services for the next agent
			t.shared.Services.Stop(t.Name)
		}
	}()

	select {
	case res := <-p.exited:
		t.shared.Services.Stop(t.Name) // no report has the end of the process and its services
		return p.recordExit(res), true
	case order := <-t.Control.restarts:
		t.record.emit(newEvent(structs.TaskEventRestartSignal, "%s", order.Reason))
		res := p.end(ctx)
		if res != nil {
			t.record.emit(p.terminated(res))
		}

		return order, res != nil

	case <-t.killed.Done():
		p.kill(ctx, t.killed)
	case <-ctx.Done():
	}

	return lifecycle.Ending{}, false
}

// restoreHooks sets up the task's hooks for a recovered process, once the allocation's hooks are up. It
// retries a failed Up, because the process runs on in any case. It reports false if ctx ended.
func (t *Task) restoreHooks(ctx context.Context) bool {
	select {
	case <-t.shared.Phases.Reached(lifecycle.HooksUp):
	case <-ctx.Done():
		return false
	}
	t.env = t.nextEnv()
	t.env.Running = true
	return hooks.Pace.Retry(ctx, t.logger,
		"hook failed, retrying", t.hooks.Up)
}
