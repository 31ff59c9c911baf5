package allocrunner

import (
	"context"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client/allocrunner/lifecycle"
	"berth/client/mesh/services"
	"berth/structs"
)

// healthWatch decides once for each deployment of the allocation whether it is healthy, and tells the
// servers. In a service it does so also without a deployment: a drain waits for the health of the successors.
// There an unhealthy allocation can still become healthy.
type healthWatch struct {
	record   *recordKeeper
	orders   *lifecycle.Orders
	phases   *lifecycle.Phases
	services *services.Set
	logger   hclog.Logger
	changed  chan struct{} // has an item if the health may have changed
	notify   func()        // passes the state on for the servers, without a call of note
}

// run decides again after each change, and when a time has come.
func (w *healthWatch) run(ctx context.Context) {
	// Its first time does not count: decide sets another one before the timer is read.
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		next := w.decide(time.Now())
		var due <-chan time.Time
		if !next.IsZero() {
			timer.Reset(time.Until(next))
			due = timer.C
		}
		select {
		case <-w.changed:
		case <-due:
		case <-ctx.Done():
			return
		}
	}
}

// note makes run look again. It does not block.
func (w *healthWatch) note() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// decide records the health if it is known now. Otherwise it returns the time of the next look, zero if only
// another change leads to one.
func (w *healthWatch) decide(now time.Time) (next time.Time) {
	alloc := w.record.alloc()
	rule := w.record.group().HealthRule(alloc.DeploymentID != "")
	rec := w.record.health()
	if alloc.ServerTerminal() || w.orders.Stopping.Err() != nil ||
		rule == nil || rule.Check == structs.HealthManual ||
		lifecycle.IsFinal(alloc, alloc.DeploymentStatus) || lifecycle.IsFinal(alloc, rec.Reported(alloc)) {
		return time.Time{}
	}

	before := rec
	if rec.Begun.IsZero() && rec.Healthy == nil && w.phases.Has(lifecycle.HooksUp) {
		rec.Begun = now
	}

	states := map[string]*structs.TaskState{}
	for _, t := range w.record.taskList() {
		states[t.Name] = t.State()
	}

	look := lifecycle.LookAt(rule, w.record.group().Tasks, states, rec.Begun)
	if look.NeedsChecks(rule) {
		since, passing := w.services.HealthySince()
		look.AddChecks(rule, since, passing)
	}

	rec.Decide(look, now)
	if rec != before {
		w.save(rec)
	}

	return look.Next(now)
}

func (w *healthWatch) save(rec lifecycle.Health) {
	err := w.record.save(func(all *allocRecord) { all.Health = &rec })
	if err != nil {
		w.logger.Error("failed to record the health of the allocation", "error", err)
		return
	}
	if rec.Healthy != nil {
		w.logger.Info("decided on the health of the allocation", "healthy", *rec.Healthy)
		w.notify()
	}
}
