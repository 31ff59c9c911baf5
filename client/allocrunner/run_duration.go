package allocrunner

import (
	"context"
	"time"

	"berth/client/allocrunner/lifecycle"
)

// boundRun ends the allocation when it has been on the node for the max_run_duration of its group. ctx ends
// when all tasks are dead. An update may change the duration.
func (r *Runner) boundRun(ctx context.Context) {
	for {
		bound := r.group().MaxRunDuration
		var due <-chan time.Time
		if bound != nil {
			due = time.After(time.Until(r.received().Add(*bound)))
		}
		select {
		case <-due:
			r.expire()
			return
		case <-r.updated:
		case <-ctx.Done():
			return
		}
	}
}

// noteUpdate makes boundRun read the duration again.
func (r *Runner) noteUpdate() {
	select {
	case r.updated <- struct{}{}:
	default: // it is going to read it
	}
}

// received returns the time at which the allocation came to the node.
func (r *Runner) received() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rec.Received
}

// expire stops all tasks and starts none any more, also no poststop task. The next agent finds the order in
// the record.
func (r *Runner) expire() {
	err := r.saveRecord(func(rec *allocRecord) { rec.Expired = true })
	if err != nil {
		r.logger.Error("failed to record that the allocation exceeds its max_run_duration", "error", err)
	}
	r.orders.GiveUp(lifecycle.Expired)
}
