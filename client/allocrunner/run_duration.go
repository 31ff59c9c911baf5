package allocrunner

import (
	"context"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client/allocrunner/lifecycle"
)

// runBound ends an allocation that has been on the node for the max_run_duration of its group.
type runBound struct {
	record  *recordKeeper
	orders  *lifecycle.Orders
	logger  hclog.Logger
	updated chan struct{} // has an item if the servers may have changed the allocation
}

// run ends the allocation when its time is over. ctx ends when all tasks are dead. An update may change the
// duration.
func (b *runBound) run(ctx context.Context) {
	for {
		most := b.record.group().MaxRunDuration
		var due <-chan time.Time
		if most != nil {
			due = time.After(time.Until(b.record.received().Add(*most)))
		}
		select {
		case <-due:
			b.expire()
			return
		case <-b.updated:
		case <-ctx.Done():
			return
		}
	}
}

// note makes run read the duration again.
func (b *runBound) note() {
	select {
	case b.updated <- struct{}{}:
	default: // it is going to read it
	}
}

// expire stops all tasks and starts none any more, also no poststop task. The next agent finds the order in
// the record.
func (b *runBound) expire() {
	err := b.record.save(func(rec *allocRecord) { rec.Expired = true })
	if err != nil {
		b.logger.Error("failed to record that the allocation exceeds its max_run_duration", "error", err)
	}
	b.orders.GiveUp(lifecycle.Expired)
}
