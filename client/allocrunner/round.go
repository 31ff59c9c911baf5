package allocrunner

import (
	"context"
	"slices"
	"sync"
	"time"

	"berth/structs"
)

// gate is closed until the tasks behind it may start. Then it stays open.
type gate struct {
	opened chan struct{}
	once   sync.Once
}

func newGate() *gate { return &gate{opened: make(chan struct{})} }

func (g *gate) open() {
	g.once.Do(func() { close(g.opened) })
}

// round is one run of the tasks of an allocation, from the first start to the last end. Most allocations have
// one. A restart of all tasks ends it and begins another. The poststop tasks follow the last round.
type round struct {
	// stopping ends when the tasks are to stop: with the allocation's, or for a restart of all tasks.
	stopping  context.Context
	stop      context.CancelCauseFunc
	main      *gate // open: every prestart task has ended, or runs as a sidecar
	poststart *gate // open: every main task has started
}

func (r *Runner) newRound() *round {
	rd := &round{main: newGate(), poststart: newGate()}
	rd.stopping, rd.stop = context.WithCancelCause(r.stopping)
	return rd
}

// gateOf returns the gate of a task of the round, nil for a prestart task.
func (rd *round) gateOf(spec *structs.Task) *gate {
	switch {
	case spec.HasHook(structs.LifecyclePrestart):
		return nil
	case spec.HasHook(structs.LifecyclePoststart):
		return rd.poststart
	}
	return rd.main
}

// current returns the current round, and its tasks with the poststop tasks in the order of the group.
func (r *Runner) current() (*round, []*task) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.round, r.tasks
}

func (r *Runner) taskList() []*task {
	_, tasks := r.current()
	return tasks
}

// openGates opens the gates of the tasks that may start now.
func (r *Runner) openGates() {
	rd, tasks := r.current()
	if !holdsForAll(tasks, structs.LifecyclePrestart, (*task).hasPrepared) {
		return
	}
	rd.main.open()
	if holdsForAll(tasks, "", (*task).hasStarted) {
		rd.poststart.open()
	}
}

// holdsForAll reports whether a condition holds for every task with a hook.
func holdsForAll(tasks []*task, hook string, holds func(*task) bool) bool {
	return !slices.ContainsFunc(tasks, func(t *task) bool {
		return t.first.HasHook(hook) && !holds(t)
	})
}

// hasPrepared reports whether the main tasks need not wait for a prestart task.
func (t *task) hasPrepared() bool {
	s := t.state()
	return s.Successful() || s.State == structs.TaskRunning && t.first.Sidecar()
}

func (t *task) hasStarted() bool {
	s := t.state()
	return s.Successful() || s.State == structs.TaskRunning
}

// runRounds runs all tasks except the poststop tasks until they are dead for good, or until ctx ends.
func (r *Runner) runRounds(ctx context.Context) {
	for {
		rd, tasks := r.current()
		r.wg.Go(func() { r.stopTasks(ctx, rd, tasks) })
		var running sync.WaitGroup
		for _, t := range tasks {
			if !t.isPoststop() {
				running.Go(func() { t.run(ctx) })
			}
		}
		running.Wait()
		rd.stop(stopError{reason: "every task has ended"}) // ends stopTasks
		if ctx.Err() != nil || !r.beginRound() {
			return
		}
	}
}

// beginRound begins another round if all tasks are to be restarted and the allocation is not to stop.
func (r *Runner) beginRound() bool {
	r.mu.Lock()
	again := r.rec.Restarting && r.stopping.Err() == nil
	r.roundsOver = !again
	rd := r.round
	tasks := r.tasks
	r.mu.Unlock()
	if again {
		rd = r.newRound()
		tasks = slices.Clone(tasks)
		for i, t := range tasks {
			tasks[i] = t.forRound(rd)
		}
	}

	r.setRound(rd, tasks)
	if again {
		r.openServices()
		r.openGates()
	}

	return again
}

// setRound sets the round and records that no restart of all tasks is under way. If the write fails, an agent
// that restarts before the next write restarts the tasks once more.
func (r *Runner) setRound(rd *round, tasks []*task) {
	var err error
	r.mu.Lock()
	restarting := r.rec.Restarting
	r.rec.Restarting = false
	r.round = rd
	r.tasks = tasks
	if restarting {
		err = allocTable.Put(r.deps.DB, r.id, &r.rec)
	}
	r.mu.Unlock()
	if err != nil {
		r.logger.Error("failed to record the restart of all tasks", "error", err)
	}
	if restarting {
		r.notifyChanged()
	}
}

// forRound returns the task of the next round. A poststop task is the same in all rounds.
func (t *task) forRound(rd *round) *task {
	if t.isPoststop() {
		return t
	}

	next := newTask(t.r, rd, t.spec())
	rec := t.snapshot()
	next.rec.State = rec.State
	next.rec.Ran = rec.Ran
	e := newEvent(structs.TaskEventRestarting, "Restarting in 0s: %s", restartAll.reason)
	next.updateRecord(e, func(rec *taskRecord, s *structs.TaskState) {
		s.State = structs.TaskPending
		s.Failed = false
		s.FinishedAt = time.Time{}
		if rec.Ran {
			s.Restarts++
			s.LastRestart = time.Now()
		}
	})

	return next
}

// poststopDue reports whether a poststop task has to run, now or after the end of the others.
func (r *Runner) poststopDue() bool {
	return r.othersRan() && slices.ContainsFunc(r.taskList(), func(t *task) bool {
		return t.isPoststop() && t.state().State != structs.TaskDead
	})
}

// othersRan reports whether a task has started that is not a poststop task. Without it there is nothing for
// which a poststop task could clean up.
func (r *Runner) othersRan() bool {
	return slices.ContainsFunc(r.taskList(), func(t *task) bool {
		return !t.isPoststop() && t.snapshot().Ran
	})
}

func (t *task) isPoststop() bool {
	return t.first.HasHook(structs.LifecyclePoststop)
}

// startPoststop lets the poststop tasks wait for their time. wait returns when they are dead, or when ctx has
// ended.
func (r *Runner) startPoststop(ctx context.Context) (wait func()) {
	var running sync.WaitGroup
	for _, t := range r.taskList() {
		if t.isPoststop() {
			running.Go(func() { t.run(ctx) })
		}
	}
	return running.Wait
}
