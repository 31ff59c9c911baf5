package external

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"berth/client/drivers/driver"
	protocol "berth/client/drivers/protocol/driver"
	"berth/structs"
)

// startTimeout bounds the start of a task. A driver may load an image for it. A plugin that hangs holds the
// task until then, unless its process ends: neither another start nor Destroy can pass.
const startTimeout = time.Hour

// start is a call of the plugin that starts a task.
type start struct {
	pipes  pipes
	ended  chan struct{}               // closed when the call has returned
	answer *protocol.StartTaskResponse // set before ended is closed, as err
	err    error                       // of the call
}

func (s *start) hasEnded() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// isAnswered reports whether the plugin has answered. The task may run if it has not.
func (s *start) isAnswered() bool {
	if !s.hasEnded() {
		return false
	}

	// gRPC itself gives these codes to a call that has no answer.
	switch status.Code(s.err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return false
	}
	return true
}

// Start implements driver.Driver. The interface of plugins has no way to take a start back. So a start goes
// on if ctx ends, and Destroy is unavailable until the plugin has answered.
func (d *Driver) Start(ctx context.Context, cfg *driver.TaskConfig) (*driver.Handle, error) {
	if d.unansweredStart(cfg.ID) != nil {
		return nil, structs.Unavailablef("the driver %q has not answered the last start of task %q",
			d.name, cfg.ID)
	}

	p, err := d.current()
	if err != nil {
		return nil, err
	}

	request, pipes, err := d.prepare(ctx, p, cfg)
	if err != nil {
		return nil, err
	}

	// The call has a context of its own: the end of ctx ends this wait, and not the start.
	s := d.begin(ctx, p, request, pipes)
	select {
	case <-s.ended:
	case <-ctx.Done():
		return nil, callError(status.FromContextError(ctx.Err()).Err())
	}

	return s.finish(ctx, d, p, cfg)
}

// finish returns the handle of a start that has ended, or removes what a failed one has left.
func (s *start) finish(
	ctx context.Context, d *Driver, p *process, cfg *driver.TaskConfig,
) (*driver.Handle, error) {
	// Without an answer the task may run, and Destroy has to know of the start.
	if s.isAnswered() {
		d.mu.Lock()
		delete(d.unanswered, cfg.ID)
		d.mu.Unlock()
	}

	err := s.failure()
	if err == nil {
		err = d.checkPlace(ctx, p.service, cfg)
	}
	if err != nil {
		// Without a handle nothing else finds what the start has left, so the end of ctx does not count.
		clean := context.WithoutCancel(ctx)
		return nil, errors.Join(err, d.destroy(clean, p, cfg.ID), d.removeGroup(clean, cfg.ID),
			d.cfg.Logs.stop(clean, cfg.ID))
	}

	t := &task{id: cfg.ID, handle: s.answer.GetHandle(), holder: p}
	d.hold(t)
	state, err := proto.Marshal(t.handle)
	return &driver.Handle{Driver: d.name, TaskID: cfg.ID, Version: handleVersion, State: state}, err
}

// prepare makes everything for a task that the plugin expects to find.
func (d *Driver) prepare(
	ctx context.Context, p *process, cfg *driver.TaskConfig,
) (*protocol.TaskConfig, pipes, error) {
	if cfg.NamespaceOf() != "" && !joinsNetworks(p.can) {
		return nil, pipes{}, structs.Preconditionf(
			"the driver %q cannot start a task in the network of its allocation", d.name)
	}

	config, err := p.schema.Decode(cfg.Config)
	if err != nil {
		return nil, pipes{}, err
	}

	mounts, err := d.mounts(cfg, p.can)
	if err != nil {
		return nil, pipes{}, err
	}

	user, err := d.userOf(cfg, p.can)
	if err != nil {
		return nil, pipes{}, err
	}

	err = openDirs(cfg, user, p.can)
	if err != nil {
		return nil, pipes{}, err
	}

	made, err := makeObjects(ctx, d, cfg)
	if err != nil {
		return nil, pipes{}, err
	}

	request := d.taskConfig(cfg, made)
	request.MsgpackDriverConfig = config
	request.Mounts = mounts
	request.User = user.name
	return request, made, nil
}

// makeObjects makes the cgroup of a task and the pipes for its output. It leaves no cgroup if it fails.
func makeObjects(ctx context.Context, d *Driver, cfg *driver.TaskConfig) (pipes, error) {
	err := d.makeGroup(cfg)
	if err != nil {
		return pipes{}, err
	}

	err = orderGuard(d, cfg)
	if err != nil {
		return pipes{}, errors.Join(err, d.removeGroup(context.WithoutCancel(ctx), cfg.ID))
	}

	made, err := d.cfg.Logs.start(ctx, cfg)
	if err != nil {
		err = fmt.Errorf("opening the task's logs: %w", err)
		return pipes{}, errors.Join(err, d.removeGroup(context.WithoutCancel(ctx), cfg.ID))
	}

	err = made.link(cfg.Dirs.Logs)
	if err != nil { // most drivers do without
		d.logger.Warn("failed to name the pipes of a task among its logs", "task_id", cfg.ID, "error", err)
	}

	return made, nil
}

// begin calls the plugin in the background. The call ends with its answer or its process, and at the latest
// when Run closes the connection.
func (d *Driver) begin(ctx context.Context, p *process, request *protocol.TaskConfig, made pipes) *start {
	s := &start{pipes: made, ended: make(chan struct{})}

	// It is known before the call, so that a Destroy in between does not miss it.
	d.mu.Lock()
	d.unanswered[request.GetId()] = s
	d.mu.Unlock()

	d.starts.Go(func() {
		defer close(s.ended)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startTimeout)
		defer cancel()
		s.answer, s.err = p.service.StartTask(ctx, &protocol.StartTaskRequest{Task: request})
	})
	return s
}

// unansweredStart returns the start of a task that the plugin has not answered, or nil.
func (d *Driver) unansweredStart(id string) *start {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.unanswered[id]
}

// failure converts the result of a start that has ended.
func (s *start) failure() error {
	if s.err != nil {
		return callError(s.err)
	}
	switch s.answer.GetResult() {
	case protocol.StartTaskResponse_SUCCESS:
		if s.answer.GetHandle() == nil {
			return structs.Internalf("the driver returned no handle")
		}
		return nil
	case protocol.StartTaskResponse_RETRY:
		return structs.Unavailablef("%s", structs.Cut(s.answer.GetDriverErrorMsg(), maxText))
	}
	return structs.Invalidf("%s", structs.Cut(s.answer.GetDriverErrorMsg(), maxText))
}
