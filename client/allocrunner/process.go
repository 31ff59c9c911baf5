package allocrunner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"berth/client/allocrunner/allocdir"
	"berth/client/allocrunner/lifecycle"
	"berth/client/drivers/driver"
	"berth/client/hooks"
	"berth/consul/mesh"
	"berth/internal/placeholder"
	"berth/structs"
)

// HostPaths reports whether the task sees the host's own paths, because its driver gives it no root. Such a
// driver has a method HostPaths.
func HostPaths(drivers Drivers, t *structs.Task) bool {
	d, err := drivers.Driver(t.Driver)
	if err != nil {
		return false
	}
	rootless, ok := d.(interface{ HostPaths() bool })
	return ok && rootless.HostPaths()
}

// seenDirs returns the task's directories as the task sees them.
func (t *task) seenDirs(spec *structs.Task) driver.Dirs {
	if HostPaths(t.shared.Drivers, spec) {
		return allocdir.OfTask(t.shared.Dir, t.name)
	}
	return driver.Inside
}

// buildEnv makes the environment for the task's next start.
func (t *task) buildEnv() *hooks.TaskEnv {
	spec := t.spec()
	env, vars := t.variables()
	cfg := &driver.TaskConfig{
		ID:     t.id,
		Task:   t.name,
		Of:     t.origin(),
		User:   vars.expand(spec.User),
		Config: placeholder.InValues(spec.Config, vars.expand),
		Env:    env,
		Ports:  t.shared.Alloc().Ports,
		Dirs:   allocdir.OfTask(t.shared.Dir, t.name),
	}

	if spec.Resources != nil {
		cfg.Resources = *spec.Resources
	}

	if t.shared.Alloc().NoMemoryMax {
		cfg.Resources.MemoryMaxMB = 0
	}

	if n := t.shared.Env.Network(); n != nil {
		cfg.Network = &n.Network
	}

	if spec.LogConfig != nil {
		cfg.LogConfig = *spec.LogConfig
	}

	return &hooks.TaskEnv{
		AllocEnv:   t.shared.Env,
		Task:       spec,
		Config:     cfg,
		FirstStart: !t.record.get().Ran,
		Seen:       t.seenDirs(spec),
		Variables:  vars,
		Expand:     vars.expand,
		Node:       t.shared.Node,
		Emit:       t.Emit,
	}
}

func (t *task) origin() driver.Origin {
	alloc := t.shared.Alloc()
	return driver.Origin{
		Namespace: structs.NamespaceOr(alloc.Namespace),
		JobID:     alloc.JobID,
		JobName:   alloc.Job.Name,
		ParentID:  alloc.Job.ParentID,
		Group:     t.shared.Group().Name,
		Alloc:     alloc.Name,
	}
}

// variables returns the environment of the task's next start, and all that its strings may refer to.
func (t *task) variables() (env map[string]string, vars variables) {
	spec := t.spec()
	return t.shared.facts(spec, t.seenDirs(spec)).variables()
}

// start sets up the task's hooks and starts its process. If it reports false, the ending has the failure.
func (t *task) start(ctx context.Context) (lifecycle.Ending, bool) {
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
func (t *task) startProcess(ctx context.Context) (h *driver.Handle, failure string, err error) {
	t.env = t.buildEnv()
	cfg := t.env.Config
	if isDenied(t.shared.DeniedUsers, cfg.User) {
		err = structs.Deniedf("this node runs no task as user %q", cfg.User)
		return nil, structs.TaskEventSetupFailure, err
	}

	cfg.Proxy, err = t.proxy(variables(t.env.Variables))
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

	if !t.prepared {
		err = t.recordStarting()
	}
	if err != nil {
		return nil, structs.TaskEventSetupFailure, err
	}

	h, err = d.Start(ctx, cfg)
	return h, structs.TaskEventDriverFailure, err
}

// proxy returns the work of a task that is a proxy of the service mesh, nil for any other.
func (t *task) proxy(vars variables) (*mesh.Proxy, error) {
	r := mesh.Resolver{Ports: t.shared.Alloc().Ports, Expand: vars.expand}
	return r.Proxy(t.shared.Group(), t.env.Task)
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
func (t *task) recordStartFailure(ctx context.Context, kind string, err error) lifecycle.Ending {
	if ctx.Err() == nil {
		t.logger.Warn("failed to start the task", "error", err)
		t.Emit(newEvent(kind, "%v", err))
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
func (t *task) superviseProcess(ctx context.Context, d driver.Driver) (lifecycle.Ending, bool) {
	select {
	case <-t.restarts: // a request for an earlier process, which has ended by itself
	default:
	}

	exited := make(chan *driver.ExitResult, 1)
	var wait sync.WaitGroup
	defer wait.Wait()
	waiting, stopWaiting := context.WithCancel(ctx)
	defer stopWaiting()
	wait.Go(func() { t.waitForExit(waiting, d, exited) })
	defer t.startHooks(ctx)()
	t.offerServices()
	defer func() {
		if ctx.Err() == nil { // otherwise the process keeps its services for the next agent
			t.shared.Services.Stop(t.name)
		}
	}()

	select {
	case res := <-exited:
		t.shared.Services.Stop(t.name) // no report has the end of the process and its services
		return t.recordExit(res), true
	case order := <-t.restarts:
		t.Emit(newEvent(structs.TaskEventRestartSignal, "%s", order.Reason))
		res := t.endProcess(ctx, d, exited)
		if res != nil {
			t.Emit(t.terminated(res))
		}

		return order, res != nil

	case <-t.killed.Done():
		t.killProcess(ctx, d, exited)
	case <-ctx.Done():
	}

	return lifecycle.Ending{}, false
}

// waitForExit sends the result of the process. It sends nothing if ctx ends first.
func (t *task) waitForExit(ctx context.Context, d driver.Driver, exited chan<- *driver.ExitResult) {
	res, err := d.Wait(ctx, t.id)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		res = &driver.ExitResult{
			ExitCode: -1,
			Err:      err.Error(),
		}
	}
	exited <- res
}

// startHooks calls Started of the task's hooks once the allocation's hooks are up. For the process of an
// earlier agent that may take a while. The returned function calls Stopped. The context of Started shows a
// hook the cause: it is alive if the process has ended, and has ended if the agent stops and leaves the
// process running.
func (t *task) startHooks(agent context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(agent)
	waiting, stopWaiting := context.WithCancel(ctx)
	var started []hooks.Started
	begin := func() {
		if t.live && !t.restoreHooks(waiting) {
			return
		}

		for _, h := range t.list {
			if s, ok := h.(hooks.Started); ok {
				s.Started(ctx, t)
				started = append(started, s)
			}
		}
	}

	var starting sync.WaitGroup
	if t.live {
		starting.Go(begin)
	} else {
		begin()
	}

	return func() {
		stopWaiting()
		starting.Wait()
		if agent.Err() != nil {
			cancel() // a context that ends with the agent may end later: the hooks have to see it ended
		}

		for _, s := range started {
			s.Stopped()
		}

		cancel()
	}
}

// restoreHooks sets up the task's hooks for a recovered process, once the allocation's hooks are up. It
// retries a failed Up, because the process runs on in any case. It reports false if ctx ended.
func (t *task) restoreHooks(ctx context.Context) bool {
	select {
	case <-t.shared.Phases.Reached(lifecycle.HooksUp):
	case <-ctx.Done():
		return false
	}
	t.env = t.buildEnv()
	t.env.Running = true
	return hooks.Pace.Retry(ctx, t.logger,
		"hook failed, retrying", t.hooks.Up)
}

// killProcess carries out a kill and waits for the end.
func (t *task) killProcess(ctx context.Context, d driver.Driver, exited <-chan *driver.ExitResult) {
	cause := context.Cause(t.killed)
	why, ok := lifecycle.CauseOf(t.killed)
	if ok && why.Event != "" && !why.Failed {
		t.Emit(newEvent(why.Event, "%s", why.Reason))
	}
	t.Emit(newEvent(structs.TaskEventKilling, "Sent interrupt: %v", cause))
	if res := t.endProcess(ctx, d, exited); res != nil {
		t.recordKilled(res)
	}
}

// endProcess stops the process after the task's shutdown delay. It returns nil if ctx ends first.
func (t *task) endProcess(
	ctx context.Context, d driver.Driver, exited <-chan *driver.ExitResult,
) *driver.ExitResult {
	t.shared.Services.Withdraw(t.name)
	if delay := t.spec().ShutdownDelay; delay > 0 {
		select {
		case <-time.After(delay):
		case <-t.shared.Orders.Undelayed.Done():
		case res := <-exited:
			return res
		case <-ctx.Done():
			return nil
		}
	}
	return t.stopProcess(ctx, d, exited)
}

func (t *task) recordKilled(res *driver.ExitResult) {
	t.Emit(exitEvent(structs.TaskEventKilled, "Task successfully killed", res))
}

// stopProcess makes the driver stop the process, and retries until the process has ended. It kills the
// process of a lost allocation at once. It returns nil if ctx ends first.
func (t *task) stopProcess(
	ctx context.Context, d driver.Driver, exited <-chan *driver.ExitResult,
) *driver.ExitResult {
	pause := hooks.Pace
	for {
		lost := t.shared.Orders.Lost.Done()
		if t.shared.Orders.Lost.Err() != nil {
			lost = nil
		}

		err := t.stopOnce(ctx, d)
		select {
		case res := <-exited:
			return res
		case <-ctx.Done():
			return nil
		case <-lost:
		case <-time.After(pause.Next()):
			t.logger.Warn("failed to stop the task, retrying", "error", err)
		}
	}
}

// stopOnce makes the driver stop the process within its kill timeout, or at once if the allocation is lost.
func (t *task) stopOnce(ctx context.Context, d driver.Driver) error {
	if t.shared.Orders.Lost.Err() != nil {
		return d.Stop(ctx, t.id, "SIGKILL", 0)
	}
	spec := t.spec()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.shared.Orders.Lost, cancel)()
	return d.Stop(ctx, t.id, t.killSignal(spec), t.shared.killTimeout(spec))
}

// killSignal returns the signal that asks the process to end, "" for the default of the driver. That also
// replaces a placeholder whose value is no signal.
func (t *task) killSignal(spec *structs.Task) string {
	written := spec.KillSignal
	if strings.Contains(written, "${") {
		_, vars := t.variables()
		written = vars.expand(written)
	}
	if written == "" {
		return ""
	}
	name, err := structs.ParseSignal(written)
	if err != nil {
		t.logger.Warn("the kill_signal of the task is no signal, using the default",
			"kill_signal", structs.Cut(written, structs.MaxQuoted))
		return ""
	}
	return name
}

// recordExit records the end of a process. It precedes the clean-up, after which the driver no longer knows
// the end: an agent that is killed in between does not start the task a second time.
func (t *task) recordExit(res *driver.ExitResult) lifecycle.Ending {
	t.record.update(t.terminated(res), func(rec *taskRecord, _ *structs.TaskState) {
		rec.Ended = res
	})
	return endingOf(res)
}

// terminated returns the event of the end of a process, and logs the end.
func (t *task) terminated(res *driver.ExitResult) *structs.TaskEvent {
	e := exitEvent(structs.TaskEventTerminated, describeExit(res), res)
	if res.OOMKilled {
		e.Details = map[string]string{"oom_killed": "true"}
	}
	t.logger.Info("task ended",
		"exit_code", res.ExitCode, "signal", res.Signal,
		"oom_killed", res.OOMKilled, "error", res.Err)
	return e
}

func endingOf(res *driver.ExitResult) lifecycle.Ending {
	return lifecycle.Ending{
		OK:     res.Successful(),
		Reason: describeExit(res),
	}
}

func exitEvent(kind, message string, res *driver.ExitResult) *structs.TaskEvent {
	return &structs.TaskEvent{
		Type:     kind,
		Message:  message,
		ExitCode: res.ExitCode,
		Signal:   res.Signal,
	}
}

func describeExit(res *driver.ExitResult) string {
	switch {
	case res.Err != "":
		return "the result is unknown: " + res.Err
	case res.OOMKilled:
		return "killed because memory ran out"
	case res.Signal != 0:
		return fmt.Sprintf("ended by signal %d", res.Signal)
	}
	return fmt.Sprintf("exit code %d", res.ExitCode)
}
