package allocrunner

import (
	"context"
	"sync"
	"time"

	"berth/client/allocrunner/lifecycle"
	"berth/client/allocrunner/taskrunner"
	"berth/internal/backoff"
	"berth/structs"
)

// Stop stops the tasks, runs the poststop tasks, and takes everything down. It does not wait: see Unwound.
func (r *Runner) Stop(reason string) {
	r.orders.Stop(lifecycle.Cause{Reason: reason})
}

// Abandon is Stop without a run of the poststop tasks: it stops those, too.
func (r *Runner) Abandon(reason string) {
	r.orders.GiveUp(lifecycle.Cause{Reason: reason})
}

// Lose fails the allocation because it has lost a volume. It kills the tasks at once, also during a stop, and
// takes everything down. The next agent finds the failure in the record.
func (r *Runner) Lose(reason string) {
	r.recordFailure(reason, true)
	r.orders.Lose(lifecycle.Cause{Reason: reason, Event: structs.TaskEventLost, Failed: true})
}

// Destroy abandons the allocation. Once all is down, it removes the directory and the records, and Run
// returns.
func (r *Runner) Destroy() {
	r.Abandon("the allocation was removed")
	r.destroyed.Do(func() { close(r.destroy) })
}

// resumeStop resumes a stop that was decided before the agent restarted.
func (r *Runner) resumeStop() {
	r.mu.Lock()
	rec := r.rec
	rd := r.round
	r.mu.Unlock()
	switch {
	case rec.Lost:
		r.orders.Lose(lifecycle.Cause{Reason: rec.Failure, Event: structs.TaskEventLost, Failed: true})
	case rec.Expired:
		r.orders.GiveUp(lifecycle.Expired)
	case rec.Alloc.ServerTerminal():
		r.stopAs(rec.Alloc)
	case rec.Failure != "":
		r.orders.GiveUp(lifecycle.Cause{Reason: rec.Failure, Event: structs.TaskEventSetupFailure, Failed: true})
	case rec.Restarting:
		rd.Stop(lifecycle.RestartAll)
	}
}

// stopTasks waits until the tasks of a round are to stop. Then it stops the leader, the tasks that are no
// sidecars, and the sidecars, each after the end of those before.
func (r *Runner) stopTasks(ctx context.Context, rd *lifecycle.Round, tasks []*taskrunner.Task) {
	select {
	case <-rd.Stopping.Done():
	case <-ctx.Done():
		return
	}

	cause := context.Cause(rd.Stopping)
	r.withdrawServices(rd, tasks)
	d := r.group().ShutdownDelay
	if d != nil && r.anyRunning() {
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
func (r *Runner) taskEnded(t *taskrunner.Task) {
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

	case lifecycle.OnlySidecarsLeft(r.members()):
		r.orders.Stop(lifecycle.Cause{
			Reason: "the main tasks have ended",
			Event:  structs.TaskEventMainDead,
		})
	}
}

// stopAfterLeader stops the tasks if an update has made one the leader that has ended before. The next agent
// would otherwise do so, when it finds that task dead.
func (r *Runner) stopAfterLeader() {
	for _, t := range r.taskList() {
		if isClosed(t.Dead()) {
			r.taskEnded(t)
		}
	}
}

// latePoststop is the time that the set-up of the allocation's hooks may take, for the poststop tasks of an
// allocation that was stopping when the agent restarted.
const latePoststop = 5 * time.Minute

// boundSetUp gives the poststop tasks up if the hooks that they need are not up in time after the order to
// stop: a plugin that does not answer must not keep the allocation for ever.
func (r *Runner) boundSetUp(ctx context.Context) {
	select {
	case <-r.orders.Stopping.Done():
	case <-r.Reached(lifecycle.SetUpOver):
		return
	case <-ctx.Done():
		return
	}

	select {
	case <-time.After(latePoststop):
		r.orders.Abandon(lifecycle.Cause{
			Reason: "the allocation's hooks were not up for its poststop tasks within " + latePoststop.String(),
			Event:  structs.TaskEventSetupFailure,
			Failed: true,
		})

	case <-r.Reached(lifecycle.SetUpOver):
	case <-ctx.Done():
	}
}
