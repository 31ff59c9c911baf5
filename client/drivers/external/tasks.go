package external

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"berth/client/drivers/driver"
	protocol "berth/client/drivers/protocol/driver"
	"berth/client/drivers/protocol/shared"
	"berth/internal/backoff"
	"berth/structs"
)

// handleVersion is the version of Handle.State: the plugin's handle of the task.
const handleVersion = 1

// task is a task that the plugin started, or took up again.
type task struct {
	id     string
	handle *protocol.TaskHandle // opaque: the plugin's; it does not change

	mu     sync.Mutex // held during a take-up: one call for each process is enough
	holder *process   // the process that knows the task; nil or an older one: it has to take it up
}

// hold makes the methods with a task ID find the task.
func (d *Driver) hold(t *task) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tasks[t.id] = t
}

func (d *Driver) findTask(id string) (*task, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.tasks[id]
	if t == nil {
		return nil, structs.NotFoundf("no task %q", id)
	}
	return t, nil
}

// Recover implements driver.Driver. Without a process of the plugin it is not known whether the task runs.
func (d *Driver) Recover(ctx context.Context, h *driver.Handle) error {
	t, err := taskOf(h)
	if err != nil {
		return err
	}

	p, err := d.current()
	if err != nil {
		return err
	}

	err = t.takeUp(ctx, p)
	if err != nil {
		return err
	}

	// A task without its helper runs on: it is of more use than its output.
	err = d.cfg.Logs.recover(ctx, h.TaskID)
	if err != nil {
		d.logger.Warn("failed to find the logs of a task", "task_id", h.TaskID, "error", err)
	}

	d.hold(t)
	return nil
}

// taskOf returns the task of a handle. It is not-found without a handle that this version can read.
func taskOf(h *driver.Handle) (*task, error) {
	if h == nil || h.State == nil || h.Version != handleVersion {
		return nil, structs.NotFoundf("the task has no handle of this version")
	}
	t := &task{id: h.TaskID, handle: &protocol.TaskHandle{}}
	err := proto.Unmarshal(h.State, t.handle)
	if err != nil {
		return nil, structs.NotFoundf("the handle of task %q cannot be read: %w", h.TaskID, err)
	}
	return t, nil
}

// takeUp makes a process of the plugin know the task. It is not-found if the task is gone.
func (t *task) takeUp(ctx context.Context, p *process) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.holder == p {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := p.service.RecoverTask(ctx, &protocol.RecoverTaskRequest{TaskId: t.id, Handle: t.handle})
	if err != nil && isFinal(err) {
		return structs.NotFoundf("the driver cannot take up task %q: %s", t.id, textOf(err))
	}
	if err != nil {
		return callError(err)
	}
	t.holder = p
	return nil
}

// waitRetry paces the calls for the end of a task.
var waitRetry = backoff.Backoff{
	Min: time.Second,
	Max: 30 * time.Second,
}

// maxLost is the number of rejections in a row after which a task that the plugin could take up is lost. They
// are of one process, which has taken the task up again before each.
const maxLost = 3

// Wait implements driver.Driver. It waits on while the plugin has no process. A plugin that does not wait
// has to take the task up again: a process that is about to end rejects, too.
func (d *Driver) Wait(ctx context.Context, id string) (*driver.ExitResult, error) {
	t, err := d.findTask(id)
	if err != nil {
		return nil, err
	}

	var last *process
	pace := waitRetry
	lost := 0
	for {
		p, err := d.await(ctx)
		if err != nil {
			return nil, err
		}

		// What one process has rejected says nothing of the next one.
		if p != last {
			last = p
			pace.Reset()
			lost = 0
		}

		result, err := t.wait(ctx, p)
		if err == nil {
			return result, nil
		}

		lost++
		if !structs.IsKind(err, structs.KindNotFound) {
			lost = 0
		}

		if lost == maxLost {
			return &driver.ExitResult{Err: err.Error()}, nil
		}

		// The end of ctx ends the call, too, which is no failure.
		if ctx.Err() == nil {
			d.logger.Warn("failed to wait for a task, retrying", "task_id", id, "error", err)
		}

		if !pace.Wait(ctx) {
			return nil, ctx.Err()
		}
	}
}

// wait waits in one process. The result is unknown if that process cannot take the task up. The error is
// unavailable if the process ends first, and not-found if it does not wait.
func (t *task) wait(ctx context.Context, p *process) (*driver.ExitResult, error) {
	err := t.takeUp(ctx, p)
	if structs.IsKind(err, structs.KindNotFound) {
		return &driver.ExitResult{Err: err.Error()}, nil
	}
	if err != nil {
		return nil, err
	}

	answer, err := p.service.WaitTask(ctx, &protocol.WaitTaskRequest{TaskId: t.id})
	if err != nil && isFinal(err) {
		t.forget(p)
		return nil, structs.NotFoundf("the driver lost task %q: %s", t.id, textOf(err))
	}
	if err != nil {
		return nil, callError(err)
	}

	return &driver.ExitResult{
		ExitCode:  int(answer.GetResult().GetExitCode()),
		Signal:    int(answer.GetResult().GetSignal()),
		OOMKilled: answer.GetResult().GetOomKilled(),
		Err:       structs.Cut(answer.GetErr(), maxText),
	}, nil
}

// forget makes the process take the task up again at the next call.
func (t *task) forget(p *process) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.holder == p {
		t.holder = nil
	}
}

// inTask calls the plugin about a task that it knows.
func (d *Driver) inTask(ctx context.Context, id string, call func(protocol.DriverClient) error) error {
	t, err := d.findTask(id)
	if err != nil {
		return err
	}
	p, err := d.current()
	if err == nil {
		err = t.takeUp(ctx, p)
	}
	if err != nil {
		return err
	}
	return callError(call(p.service))
}

// Stop implements driver.Driver. A plugin that hangs has callTimeout more than the task. Without a signal,
// the plugin uses its own default.
func (d *Driver) Stop(ctx context.Context, id, signal string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout+callTimeout)
	defer cancel()
	return d.inTask(ctx, id, func(service protocol.DriverClient) error {
		_, err := service.StopTask(ctx, &protocol.StopTaskRequest{
			TaskId:  id,
			Timeout: durationpb.New(timeout),
			Signal:  signal,
		})
		return err
	})
}

// Signal implements driver.Driver.
func (d *Driver) Signal(ctx context.Context, id, signal string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return d.inTask(ctx, id, func(service protocol.DriverClient) error {
		_, err := service.SignalTask(ctx, &protocol.SignalTaskRequest{TaskId: id, Signal: signal})
		return err
	})
}

// Destroy implements driver.Driver. A task that the plugin can neither find nor take up is gone. The plugin
// may know a task that the agent does not: one whose handle an agent that was killed did not record.
func (d *Driver) Destroy(ctx context.Context, id string, h *driver.Handle) error {
	unanswered := d.unansweredStart(id)
	if unanswered != nil && !unanswered.hasEnded() {
		return structs.Unavailablef("the driver %q still starts task %q", d.name, id)
	}

	p, err := d.current()
	if err != nil {
		return err
	}

	// A restarted agent that has not taken up the task knows only its handle.
	t, err := d.findTask(id)
	if err != nil {
		t, err = taskOf(h)
	}
	if err == nil {
		err = t.takeUp(ctx, p)
	}

	// A plugin that cannot take the task up, or that gets no handle, may still know the task by its ID.
	if err == nil || structs.IsKind(err, structs.KindNotFound) {
		err = d.destroy(ctx, p, id)
	}
	if err != nil {
		return err
	}

	err = removeObjects(ctx, d, id, unanswered)
	if err != nil {
		return err
	}

	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.tasks, id)
	delete(d.unanswered, id)
	return nil
}

// removeObjects removes what the agent has made for a task that the plugin has removed. The processes end
// first, then the helper, which reads their last output. The user ID is free when no process has it.
func removeObjects(ctx context.Context, d *Driver, id string, unanswered *start) error {
	err := d.removeGroup(ctx, id)
	if err != nil {
		return err
	}

	err = d.cfg.Logs.stop(ctx, id)

	// The plugin may have started a process of which it knows nothing.
	if err == nil && unanswered != nil && !unanswered.isAnswered() {
		err = unanswered.pipes.checkUnused()
	}
	if err != nil {
		return err
	}

	return releaseUser(d.cfg.Records, id)
}

// destroy removes a task, also a running one. A plugin that has no such task rejects, as one that fails does:
// so it is asked for the task.
func (d *Driver) destroy(ctx context.Context, p *process, id string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := p.service.DestroyTask(ctx, &protocol.DestroyTaskRequest{TaskId: id, Force: true})
	if err == nil || !isFinal(err) {
		return callError(err)
	}

	// The first error stands unless the plugin says that it has no such task.
	_, missing := p.service.InspectTask(ctx, &protocol.InspectTaskRequest{TaskId: id})
	if missing != nil && isFinal(missing) {
		return nil
	}
	return callError(err)
}

// isFinal reports whether the plugin answered that the call failed, and will fail again. Plugins have no
// codes for that: they mark what can be repeated. An answer that is too large or no message is no such
// answer.
func isFinal(err error) bool {
	s := status.Convert(err)
	switch s.Code() {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.ResourceExhausted, codes.Internal:
		return false
	}

	// The mark comes as a detail of the status, with any code.
	for _, detail := range s.Details() {
		if d, ok := detail.(*shared.RecoverableError); ok && d.GetRecoverable() {
			return false
		}
	}
	return true
}

// callError converts the error of a call. A final one is internal: the codes of plugins do not tell whose
// fault it is.
func callError(err error) error {
	if err == nil {
		return nil
	}
	switch {
	case status.Code(err) == codes.DeadlineExceeded:
		return structs.Errorf(structs.KindTimeout, "driver plugin: %s", textOf(err))
	case !isFinal(err):
		return structs.Unavailablef("driver plugin: %s", textOf(err))
	}
	return structs.Internalf("driver plugin: %s", textOf(err))
}

// textOf is the text of the error of a call.
func textOf(err error) string { return cut("%s", status.Convert(err).Message()) }

// cut formats a text of the plugin, which has no bound.
func cut(format string, args ...any) string {
	return structs.Cut(fmt.Sprintf(format, args...), maxText)
}
