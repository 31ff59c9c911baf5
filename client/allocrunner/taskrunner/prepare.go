package taskrunner

import (
	"context"

	"berth/client/allocrunner/lifecycle"
	"berth/client/drivers/driver"
)

// prepare makes the driver begin the start of the process while the last hooks of the allocation come up, if
// the task starts right after them, in the network of the node. If that fails, the driver does all of it
// later.
func (t *Task) prepare(ctx context.Context) {
	// A restored task waits for the servers first, a poststop task for the other tasks, and a network of the
	// allocation's own for its hook.
	if t.shared.Restored || t.IsPoststop() || t.shared.Group().Network().Isolated() {
		return
	}

	select {
	case <-t.shared.Phases.Reached(lifecycle.NearlyUp):
	case <-t.shared.Phases.Reached(lifecycle.HooksUp):
	case <-ctx.Done():
	}

	// Once the hooks are up, Start follows at once.
	if t.shared.Phases.Has(lifecycle.HooksUp) || ctx.Err() != nil || t.gate != nil && !t.gate.IsOpen() {
		return
	}

	d, err := t.shared.Drivers.Driver(t.Spec().Driver)
	p, ok := d.(driver.Preparer)
	if err != nil || !ok {
		return
	}

	err = t.recordStarting()
	if err == nil {
		err = p.Prepare(ctx, t.nextEnv().Config)
		t.prepared = err == nil
	}

	if err != nil && ctx.Err() == nil {
		t.logger.Warn("failed to prepare the task", "error", err)
	}
}

// recordStarting records that the driver is called to start the process.
func (t *Task) recordStarting() error {
	t.clean = false
	return t.record.save(func(rec *taskRecord) {
		rec.Starting = true
	})
}
