package allocrunner

import (
	"cmp"
	"context"
	"time"

	"berth/client/allocrunner/lifecycle"
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
	r.record.saveFailure(failure{reason: reason, lost: true, event: structs.TaskEventLost})
	r.orders.Lose(lifecycle.Cause{Reason: reason, Event: structs.TaskEventLost, Failed: true})
}

// LoseLease is Lose for an allocation that has lost the lease of its node.
func (r *Runner) LoseLease(reason string) {
	r.record.saveFailure(failure{reason: reason, lost: true, event: structs.TaskEventLeaseEnded})
	r.orders.Lose(lifecycle.Cause{Reason: reason, Event: structs.TaskEventLeaseEnded, Failed: true})
}

// StopAlone stops the tasks and fails the allocation, which must not outlive the lease of its node by more
// than a time. The next agent finds the failure in the record.
func (r *Runner) StopAlone(reason string) {
	r.record.saveFailure(failure{reason: reason, event: structs.TaskEventLeaseEnded})
	r.orders.GiveUp(lifecycle.Cause{Reason: reason, Event: structs.TaskEventLeaseEnded, Failed: true})
}

// Destroy abandons the allocation. Once all is down, it removes the directory and the records, and Run
// returns.
func (r *Runner) Destroy() {
	r.Abandon("the allocation was removed")
	r.destroyed.Do(func() { close(r.destroy) })
}

// resumeStop resumes a stop that was decided before the agent restarted.
func (r *Runner) resumeStop() {
	rec, rd := r.record.get()
	switch {
	case rec.Lost:
		event := cmp.Or(rec.FailureEvent, structs.TaskEventLost)
		r.orders.Lose(lifecycle.Cause{Reason: rec.Failure, Event: event, Failed: true})
	case rec.Expired:
		r.orders.GiveUp(lifecycle.Expired)
	case rec.Alloc.ServerTerminal():
		r.stopAs(rec.Alloc)
	case rec.Failure != "":
		r.orders.GiveUp(lifecycle.Cause{
			Reason: rec.Failure,
			Event:  cmp.Or(rec.FailureEvent, structs.TaskEventSetupFailure),
			Failed: true,
		})
	case rec.Restarting:
		rd.Stop(lifecycle.RestartAll)
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
			Reason: "the allocation's hooks were not up for its poststop tasks within " +
				latePoststop.String(),
			Event:  structs.TaskEventSetupFailure,
			Failed: true,
		})

	case <-r.Reached(lifecycle.SetUpOver):
	case <-ctx.Done():
	}
}
