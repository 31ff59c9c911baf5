package allocrunner

import (
	"context"
	"sync"
	"time"

	"berth/structs"
)

// stopError is the cause with which stopping ends.
type stopError struct {
	reason string
	event  string // type of the task event for it, if any
	failed bool   // the whole allocation fails
}

func (e stopError) Error() string { return e.reason }

// Stop stops the tasks, runs the poststop tasks, and takes everything down. It does not wait: see Unwound.
func (r *Runner) Stop(reason string) {
	r.stop(stopError{reason: reason})
}

// Abandon is Stop without a run of the poststop tasks: it stops those, too.
func (r *Runner) Abandon(reason string) {
	r.giveUp(stopError{reason: reason})
}

// giveUp stops all tasks, and starts none any more.
func (r *Runner) giveUp(cause stopError) {
	r.abandon(cause)
	r.stop(cause)
}

// Lose fails the allocation because it has lost a volume. It kills the tasks at once, also during a stop, and
// takes everything down. The next agent finds the failure in the record.
func (r *Runner) Lose(reason string) {
	r.recordFailure(reason, true)
	r.lose()
	r.giveUp(stopError{reason, structs.TaskEventLost, true})
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
		r.lose()
		r.giveUp(stopError{rec.Failure, structs.TaskEventLost, true})
	case rec.Expired:
		r.giveUp(expired)
	case rec.Alloc.ServerTerminal():
		r.stopAs(rec.Alloc)
	case rec.Failure != "":
		r.giveUp(stopError{rec.Failure, structs.TaskEventSetupFailure, true})
	case rec.Restarting:
		rd.stop(restartAll)
	}
}

// stopTasks waits until the tasks of a round are to stop. Then it stops the leader, the tasks that are no
// sidecars, and the sidecars, each after the end of those before.
func (r *Runner) stopTasks(ctx context.Context, rd *round, tasks []*task) {
	select {
	case <-rd.stopping.Done():
	case <-ctx.Done():
		return
	}

	cause := context.Cause(rd.stopping)
	r.withdrawServices(rd, tasks)
	d := r.group().ShutdownDelay
	if d != nil && r.anyRunning() {
		sleepUnless(ctx, r.undelayed, *d)
		if ctx.Err() != nil {
			return
		}
	}

	for rank := range stopRanks {
		var wg sync.WaitGroup
		for _, t := range tasks {
			if !t.isPoststop() && t.stopRank() == rank {
				wg.Go(func() { t.stopAndWait(ctx, cause) })
			}
		}

		wg.Wait()
	}
}

const stopRanks = 3

// stopRank returns the place of a task in the order of the stop.
func (t *task) stopRank() int {
	switch {
	case t.spec().Leader:
		return 0
	case t.first.Sidecar():
		return 2
	}
	return 1
}

// taskEnded stops the other tasks if a task has failed, the leader has ended, or only sidecars are left.
func (r *Runner) taskEnded(t *task) {
	switch {
	case t.state().Failed:
		r.stop(stopError{
			reason: "task " + t.name + " failed",
			event:  structs.TaskEventSiblingFailed,
		})

	case t.isPoststop() || t.round.stopping.Err() != nil:
	case t.spec().Leader:
		reason := "the leader task " + t.name + " has ended"
		r.stop(stopError{
			reason: reason,
			event:  structs.TaskEventLeaderDead,
		})

	case r.onlySidecarsLeft():
		r.stop(stopError{
			reason: "the main tasks have ended",
			event:  structs.TaskEventMainDead,
		})
	}
}

// stopAfterLeader stops the tasks if an update has made one the leader that has ended before. The next agent
// would otherwise do so, when it finds that task dead.
func (r *Runner) stopAfterLeader() {
	for _, t := range r.taskList() {
		if isClosed(t.dead) {
			r.taskEnded(t)
		}
	}
}

func (r *Runner) onlySidecarsLeft() bool {
	for _, t := range r.taskList() {
		if !t.isPoststop() && !t.first.Sidecar() && t.state().State != structs.TaskDead {
			return false
		}
	}
	return true
}

// latePoststop is the time that the set-up of the allocation's hooks may take, for the poststop tasks of an
// allocation that was stopping when the agent restarted.
const latePoststop = 5 * time.Minute

// boundSetUp gives the poststop tasks up if the hooks that they need are not up in time after the order to
// stop: a plugin that does not answer must not keep the allocation for ever.
func (r *Runner) boundSetUp(ctx context.Context) {
	select {
	case <-r.stopping.Done():
	case <-r.Reached(setUpOver):
		return
	case <-ctx.Done():
		return
	}

	select {
	case <-time.After(latePoststop):
		r.abandon(stopError{
			reason: "the allocation's hooks were not up for its poststop tasks within " + latePoststop.String(),
			event:  structs.TaskEventSetupFailure,
			failed: true,
		})

	case <-r.Reached(setUpOver):
	case <-ctx.Done():
	}
}
