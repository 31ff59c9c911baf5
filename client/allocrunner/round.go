package allocrunner

import (
	"context"
	"slices"
	"sync"

	"berth/client/allocrunner/lifecycle"
	"berth/client/allocrunner/taskrunner"
	"berth/client/mesh/services"
	"berth/internal/backoff"
	"berth/structs"
)

// rounds runs the tasks of an allocation, round after round, and the poststop tasks after the last one.
type rounds struct {
	record   *recordKeeper
	orders   *lifecycle.Orders
	services *services.Set
	notify   func()          // passes the state on for the servers
	wg       *sync.WaitGroup // the runner's
}

// openGates opens the gates of the tasks that may start now.
func (r *rounds) openGates() {
	rd, tasks := r.record.current()
	rd.OpenGates(tasks.members())
}

// run runs all tasks except the poststop tasks until they are dead for good, or until ctx ends.
func (r *rounds) run(ctx context.Context) {
	for {
		rd, tasks := r.record.current()
		r.wg.Go(func() { r.stopTasks(ctx, rd, tasks) })
		var running sync.WaitGroup
		for _, t := range tasks {
			if !t.IsPoststop() {
				running.Go(func() { t.Run(ctx) })
			}
		}
		running.Wait()
		rd.Stop(lifecycle.Cause{Reason: "every task has ended"}) // ends stopTasks
		if ctx.Err() != nil || !r.begin() {
			return
		}
	}
}

// begin begins another round if all tasks are to be restarted and the allocation is not to stop.
func (r *rounds) begin() bool {
	again := r.record.endRound(r.orders)
	rd, tasks := r.record.current()
	if again {
		rd = lifecycle.NewRound(r.orders)
		tasks = slices.Clone(tasks)
		for i, t := range tasks {
			tasks[i] = t.ForRound(rd)
		}
	}

	if r.record.setRound(rd, tasks) {
		r.notify()
	}

	if again {
		r.openServices()
		r.openGates()
	}

	return again
}

// startPoststop lets the poststop tasks wait for their time. wait returns when they are dead, or when ctx has
// ended.
func (r *rounds) startPoststop(ctx context.Context) (wait func()) {
	var running sync.WaitGroup
	for _, t := range r.record.taskList() {
		if t.IsPoststop() {
			running.Go(func() { t.Run(ctx) })
		}
	}
	return running.Wait
}

// stopTasks waits until the tasks of a round are to stop. Then it stops the leader, the tasks that are no
// sidecars, and the sidecars, each after the end of those before.
func (r *rounds) stopTasks(ctx context.Context, rd *lifecycle.Round, tasks taskSet) {
	select {
	case <-rd.Stopping.Done():
	case <-ctx.Done():
		return
	}

	cause := context.Cause(rd.Stopping)
	r.withdrawServices(rd, tasks)
	d := r.record.group().ShutdownDelay
	if d != nil && r.record.anyRunning() {
		delayed, cancel := lifecycle.WhileWanted(ctx, r.orders.Undelayed)
		backoff.Sleep(delayed, *d)
		cancel()
		if ctx.Err() != nil {
			return
		}
	}

	for rank := range lifecycle.StopRanks {
		var wg sync.WaitGroup
		for _, t := range tasks {
			if !t.IsPoststop() && lifecycle.StopRank(t.First, t.Spec()) == rank {
				wg.Go(func() { t.StopAndWait(ctx, cause) })
			}
		}

		wg.Wait()
	}
}

// taskEnded stops the other tasks if a task has failed, the leader has ended, or only sidecars are left.
func (r *rounds) taskEnded(t *taskrunner.Task) {
	switch {
	case t.State().Failed:
		r.orders.Stop(lifecycle.Cause{
			Reason: "task " + t.Name + " failed",
			Event:  structs.TaskEventSiblingFailed,
		})

	case t.IsPoststop() || t.IsToStop():
	case t.Spec().Leader:
		reason := "the leader task " + t.Name + " has ended"
		r.orders.Stop(lifecycle.Cause{
			Reason: reason,
			Event:  structs.TaskEventLeaderDead,
		})

	case lifecycle.OnlySidecarsLeft(r.record.members()):
		r.orders.Stop(lifecycle.Cause{
			Reason: "the main tasks have ended",
			Event:  structs.TaskEventMainDead,
		})
	}
}

// stopAfterLeader stops the tasks if an update has made one the leader that has ended before. The next agent
// would otherwise do so, when it finds that task dead.
func (r *rounds) stopAfterLeader() {
	for _, t := range r.record.taskList() {
		if isClosed(t.Dead()) {
			r.taskEnded(t)
		}
	}
}
