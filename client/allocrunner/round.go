package allocrunner

import (
	"context"
	"slices"
	"sync"

	"berth/client/allocrunner/lifecycle"
	"berth/client/allocrunner/taskrunner"
)

// current returns the current round, and its tasks with the poststop tasks in the order of the group.
func (r *Runner) current() (*lifecycle.Round, []*taskrunner.Task) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.round, r.tasks
}

func (r *Runner) taskList() []*taskrunner.Task {
	_, tasks := r.current()
	return tasks
}

// members returns the tasks for decisions on their order.
func (r *Runner) members() []lifecycle.Member {
	return membersOf(r.taskList())
}

func membersOf(tasks []*taskrunner.Task) []lifecycle.Member {
	members := make([]lifecycle.Member, 0, len(tasks))
	for _, t := range tasks {
		members = append(members, t.Member())
	}
	return members
}

// openGates opens the gates of the tasks that may start now.
func (r *Runner) openGates() {
	rd, tasks := r.current()
	rd.OpenGates(membersOf(tasks))
}

// runRounds runs all tasks except the poststop tasks until they are dead for good, or until ctx ends.
func (r *Runner) runRounds(ctx context.Context) {
	for {
		rd, tasks := r.current()
		r.wg.Go(func() { r.stopTasks(ctx, rd, tasks) })
		var running sync.WaitGroup
		for _, t := range tasks {
			if !t.IsPoststop() {
				running.Go(func() { t.Run(ctx) })
			}
		}
		running.Wait()
		rd.Stop(lifecycle.Cause{Reason: "every task has ended"}) // ends stopTasks
		if ctx.Err() != nil || !r.beginRound() {
			return
		}
	}
}

// beginRound begins another round if all tasks are to be restarted and the allocation is not to stop.
func (r *Runner) beginRound() bool {
	r.mu.Lock()
	again := r.rec.Restarting && r.orders.Stopping.Err() == nil
	r.roundsOver = !again
	rd := r.round
	tasks := r.tasks
	r.mu.Unlock()
	if again {
		rd = lifecycle.NewRound(r.orders)
		tasks = slices.Clone(tasks)
		for i, t := range tasks {
			tasks[i] = t.ForRound(rd)
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
func (r *Runner) setRound(rd *lifecycle.Round, tasks []*taskrunner.Task) {
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

// startPoststop lets the poststop tasks wait for their time. wait returns when they are dead, or when ctx has
// ended.
func (r *Runner) startPoststop(ctx context.Context) (wait func()) {
	var running sync.WaitGroup
	for _, t := range r.taskList() {
		if t.IsPoststop() {
			running.Go(func() { t.Run(ctx) })
		}
	}
	return running.Wait
}
