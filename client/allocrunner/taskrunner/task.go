package taskrunner

import (
	"context"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client/allocrunner/lifecycle"
	"berth/client/drivers/driver"
	"berth/client/hooks"
	"berth/client/store"
	"berth/internal/backoff"
	"berth/structs"
)

// Task runs one task of an allocation: it starts the process, waits for its end, and decides on a restart.
type Task struct {
	shared *Shared
	Name   string
	id     string // the driver's: "<alloc id>/<task>"
	logger hclog.Logger
	hooks  *hooks.Sequence
	list   []hooks.Task
	First  *structs.Task   // as it was first seen: a lifecycle does not change
	gate   *lifecycle.Gate // nil if the task waits for no other one
	env    *hooks.TaskEnv  // of the current start; only the task's own goroutine touches it

	record  *recordKeeper
	builder *builder
	Control *Control

	// Only the goroutine of the task touches these, and the runner's before it starts.
	sought   *driver.Handle     // a process of a former agent that may still run
	live     bool               // the process of a former agent was found
	former   *driver.ExitResult // the end of a process that a former agent recorded and did not act on
	clean    bool               // the driver surely has nothing of the task: it may start
	prepared bool               // the driver has begun the start

	// halt ends when the task may not start any more: when its round is to stop, or a poststop task itself.
	halt context.Context
	// killed ends when the task is to stop for good; its cause is the reason.
	killed context.Context
	kill   context.CancelCauseFunc
	dead   chan struct{} // closed: the task is dead; the Downs of its hooks may still run
}

// NewTask returns a task of a round that has not started. Call FirstRecord, LoadRecord or AssumeBegun before
// Reattach, and that before Run.
func NewTask(s *Shared, rd *lifecycle.Round, spec *structs.Task) *Task {
	t := &Task{
		shared: s,
		First:  spec,
		gate:   rd.GateOf(spec),
		Name:   spec.Name,
		id:     s.AllocID + "/" + spec.Name,
		logger: s.Logger.With("task", spec.Name),
		clean:  true,
		dead:   make(chan struct{}),
	}

	t.record = newRecordKeeper(s, spec.Name, t.logger)
	t.halt = rd.Stopping
	t.killed, t.kill = context.WithCancelCause(context.Background())
	// The round stops before its poststop tasks start, so these have contexts of their own.
	if t.IsPoststop() {
		t.killed, t.kill = context.WithCancelCause(s.Orders.Abandoned)
		t.halt = t.killed
	}

	t.builder = &builder{shared: s, name: t.Name, id: t.id, logger: t.logger}
	t.Control = &Control{
		shared:   s,
		name:     t.Name,
		id:       t.id,
		logger:   t.logger,
		record:   t.record,
		restarts: make(chan lifecycle.Ending, 1),
		kill:     t.kill,
		dead:     t.dead,
	}

	t.list = append([]hooks.Task{&volumeMounts{t.builder}},
		s.Hooks(s.Env, spec)...)
	t.hooks = hooks.NewSequence(t.logger, func(recorded []string) error {
		return t.record.save(func(rec *taskRecord) {
			rec.Begun = recorded
		})
	})

	for _, h := range t.list {
		t.hooks.AddTask(h, func() *hooks.TaskEnv { return t.env })
	}

	return t
}

// FirstRecord makes the first record of the task, for the caller to write. It has all hooks, so that no other
// write precedes their Ups.
func (t *Task) FirstRecord() store.Change {
	rec := &t.record.rec
	rec.Begun = t.hooks.RecordFirst()
	addEvent(rec.State, newEvent(structs.TaskEventReceived, "Task received by client"))
	return taskTable.Change(t.record.key, rec)
}

// AssumeBegun assumes, before the first record, that the task and its hooks have begun.
func (t *Task) AssumeBegun() {
	t.record.rec.Starting = true
	t.record.rec.Begun = t.hooks.AssumeBegun()
}

// LoadRecord reads the record of a former agent.
func (t *Task) LoadRecord() error {
	begun, err := t.record.load()
	if err == nil {
		t.hooks.Restore(begun)
	}
	return err
}

// Spec returns the task as the servers last sent it.
func (t *Task) Spec() *structs.Task { return t.builder.spec() }

// nextEnv makes the environment for the next start.
func (t *Task) nextEnv() *hooks.TaskEnv {
	return t.builder.env(!t.record.get().Ran, t.record.emit)
}

// recoverTimeout bounds one attempt to find a process again.
const recoverTimeout = 10 * time.Second

// Reattach finds the process of an earlier agent. It looks by ID for a process that was started but whose
// handle did not reach the store.
func (t *Task) Reattach(ctx context.Context) {
	rec := t.record.get()
	t.former = rec.Ended
	h := rec.Handle
	// The agent was killed after the call of the driver and before the record of its answer.
	if h == nil && rec.Starting {
		h = &driver.Handle{Driver: t.Spec().Driver, TaskID: t.id}
	}

	if h == nil || rec.State.State == structs.TaskDead {
		return
	}

	t.clean = false
	t.sought = h
	t.findProcess(ctx)
}

// findProcess tries once to find the process. While the driver can neither find the process nor confirm its
// end, the process counts as running. So it does without the driver, whose plugin may be missing.
func (t *Task) findProcess(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, recoverTimeout)
	defer cancel()
	h := t.sought
	d, err := t.shared.Drivers.Driver(h.Driver)
	if err == nil {
		err = d.Recover(ctx, h)
	}

	switch {
	case err == nil:
		t.live = true
		t.recordFound(h)
	case structs.IsKind(err, structs.KindNotFound):
		next := "; starts again once the servers were contacted"
		if t.killed.Err() != nil {
			next = ""
		}

		e := newEvent(structs.TaskEventRestored, "Not running any more: %v%s", err, next)
		t.record.update(e, func(_ *taskRecord, s *structs.TaskState) {
			s.State = structs.TaskPending
		})

	default:
		// sought stays set, so findProcessUntilKnown tries again.
		t.logger.Warn("failed to find the task's process, retrying", "error", err)
		return
	}

	t.sought = nil
}

// recordFound records that the process of an earlier agent runs.
func (t *Task) recordFound(h *driver.Handle) {
	e := newEvent(structs.TaskEventRestored, "Task is running since before the agent restarted")
	t.record.update(e, func(rec *taskRecord, s *structs.TaskState) {
		if rec.Starting { // the agent ended before it recorded the start
			s.StartedAt = time.Now()
		}

		rec.markRunning(h)
		s.State = structs.TaskRunning
	})
}

// findProcessUntilKnown retries until it is known whether the process still runs, the task is killed or ctx
// ends.
func (t *Task) findProcessUntilKnown(ctx context.Context) {
	pause := hooks.Pace
	for t.sought != nil && sleepUnless(ctx, t.killed, pause.Next()) {
		t.findProcess(ctx)
	}
	if t.sought != nil && ctx.Err() == nil { // killed: a process that is found now has its time to end
		t.findProcess(ctx)
	}
}

// Run is the goroutine of the task. It returns when the task is dead and its hooks are down, or when ctx
// ends.
func (t *Task) Run(ctx context.Context) {
	// A task that is dead in the store has only its hooks to take down.
	if t.record.state().State != structs.TaskDead {
		unfollow := t.shared.Drivers.FollowTask(t.shared.AllocID, t.Name, t.record.emit)
		t.runUntilDead(ctx)
		unfollow()
	}
	if t.record.state().State != structs.TaskDead {
		return // the agent stops
	}
	close(t.dead)
	t.shared.Ended(t)
	t.hooks.DownUntilDone(ctx)
}

// runUntilDead starts the process again until the restart policy ends it.
func (t *Task) runUntilDead(ctx context.Context) {
	for {
		e, ok := t.runOnce(ctx)
		if ctx.Err() != nil {
			return
		}

		if !ok { // killed
			t.markDead(false)
			return
		}

		spec := t.Spec()
		h := t.record.get().History
		policy := lifecycle.PolicyOf(t.shared.Group(), spec)
		// h is a copy, which is recorded only with a restart.
		d := h.Decide(policy, spec.Finite(t.shared.Alloc().Job), time.Now(), e)
		if !d.Restart {
			if d.Failed {
				ev := newEvent(t.lastEvent(), "%s", d.Reason)
				ev.FailsTask = true
				t.record.emit(ev)
			}

			t.markDead(d.Failed)
			return
		}

		ev := newEvent(structs.TaskEventRestarting, "Restarting in %s: %s",
			d.Delay, d.Reason)
		t.record.update(ev, func(rec *taskRecord, s *structs.TaskState) {
			rec.History = h
			rec.Ended = nil
			s.State = structs.TaskPending
			s.Restarts++
			s.LastRestart = time.Now()
		})

		if !sleepUnless(ctx, t.killed, d.Delay) {
			if ctx.Err() == nil {
				t.markDead(false)
			}
			return
		}
	}
}

// lastEvent is the type of the event of a task that has failed and does not start again. The guard kills
// tasks without their agent, and the servers do not count that as a failure of the task.
func (t *Task) lastEvent() string {
	if t.shared.LeaseEnded != nil && t.shared.LeaseEnded(t.shared.AllocID) {
		return structs.TaskEventLeaseEnded
	}
	return structs.TaskEventNotRestarting
}

// sleepUnless waits for d. It reports false if one of the contexts ended first.
func sleepUnless(ctx, end context.Context, d time.Duration) bool {
	if end.Err() != nil {
		return false
	}
	both, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(end, cancel)()
	return backoff.Sleep(both, d)
}

// markDead records the end of the task. A task that was killed because of a failure has failed, too.
func (t *Task) markDead(failed bool) {
	var e *structs.TaskEvent
	why, ok := lifecycle.CauseOf(t.killed)
	if ok && why.Failed {
		failed = true
		e = newEvent(why.Event, "%s", why.Reason)
		e.FailsTask = true
	}
	t.record.update(e, func(rec *taskRecord, s *structs.TaskState) {
		rec.Ended = nil
		s.State = structs.TaskDead
		s.Failed = failed
		s.FinishedAt = time.Now()
	})
}

// StopAndWait orders the task to stop and waits until it is dead.
func (t *Task) StopAndWait(ctx context.Context, cause error) {
	t.kill(cause)
	select {
	case <-t.dead:
	case <-ctx.Done():
	}
}

// runOnce runs the process once, or waits for the end of the one that a former agent started. It reports
// false if the task was killed or ctx ended.
func (t *Task) runOnce(ctx context.Context) (lifecycle.Ending, bool) {
	// Each return makes the driver destroy the task, except when the agent ends.
	defer t.cleanUp(ctx)
	t.findProcessUntilKnown(ctx)
	if former := t.former; !t.live && former != nil {
		t.former = nil
		return endingOf(former), true
	}

	if !t.live {
		if ctx.Err() == nil {
			t.shared.Services.Stop(t.Name) // the services of a process that has not been found
		}

		wanted, cancel := lifecycle.WhileWanted(ctx, t.halt)
		defer cancel()
		t.prepare(wanted)
		if !t.awaitMayStart(ctx) {
			return lifecycle.Ending{}, false
		}

		if e, ok := t.start(ctx); !ok {
			// A start that fails because the task is to stop is no ending for the restart policy.
			return e, !t.awaitStopOrder(ctx)
		}
	}

	d, err := t.shared.Drivers.Driver(t.record.get().Handle.Driver)
	if err != nil { // the driver worked a moment ago
		return lifecycle.Ending{Reason: err.Error()}, true
	}

	return t.superviseProcess(ctx, d)
}

// awaitMayStart waits until the tasks before this one in the life of the allocation have let it pass and the
// allocation's hooks are up, and after an agent's restart until the servers have answered. It reports false
// if the task is not to start, or ctx ended meanwhile.
func (t *Task) awaitMayStart(ctx context.Context) bool {
	for _, gate := range t.gates() {
		select {
		case <-gate:
		case <-t.halt.Done():
		case <-ctx.Done():
		}
	}

	// A halt passes all gates at once. awaitStopOrder then waits for the order.
	if t.IsPoststop() && !(t.shared.Phases.Has(lifecycle.HooksUp) &&
		lifecycle.OthersRan(t.shared.Members())) {
		return false // there is nothing to clean up, or the allocation's hooks are not up
	}
	return !t.awaitStopOrder(ctx)
}

func (t *Task) gates() []<-chan struct{} {
	gates := []<-chan struct{}{t.shared.Phases.Reached(lifecycle.HooksUp)}
	if t.IsPoststop() {
		gates = []<-chan struct{}{
			t.shared.Phases.Reached(lifecycle.TasksDead),
			t.shared.Phases.Reached(lifecycle.SetUpOver),
		}
	} else if t.gate != nil {
		gates = append(gates, t.gate.Opened())
	}
	if t.shared.Restored {
		gates = append(gates, t.shared.ServersContacted)
	}
	return gates
}

// awaitStopOrder reports whether the task is to end. A stopping allocation starts no main task any more, but
// its tasks are stopped one after the other. So awaitStopOrder waits for the stop of this task.
func (t *Task) awaitStopOrder(ctx context.Context) bool {
	if t.halt.Err() == nil {
		return ctx.Err() != nil
	}
	select {
	case <-t.killed.Done():
	case <-ctx.Done():
	}
	return true
}

// cleanUp makes the driver destroy the task, and retries until it succeeds or ctx ends: a task never starts
// beside the remains of its last run, and is not dead while any are left. It leaves the process alone when
// the agent stops.
func (t *Task) cleanUp(ctx context.Context) {
	if t.clean || ctx.Err() != nil {
		return
	}
	const failed = "failed to clean up after the task, retrying"
	if !hooks.Pace.Retry(ctx, t.logger, failed, t.destroyProcess) {
		return
	}
	t.live = false
	t.clean = true
	t.prepared = false
	t.record.update(nil, func(rec *taskRecord, _ *structs.TaskState) {
		rec.Handle = nil
		rec.Starting = false
	})
}

// destroyProcess asks the driver that started the process. The job may name another one by now.
func (t *Task) destroyProcess(ctx context.Context) error {
	name := t.Spec().Driver
	h := t.record.get().Handle
	if h != nil {
		name = h.Driver
	}
	d, err := t.shared.Drivers.Driver(name)
	if err != nil {
		return err
	}
	err = d.Destroy(ctx, t.id, h)
	// The driver has nothing of the task any more.
	if structs.IsKind(err, structs.KindNotFound) {
		return nil
	}
	return err
}
