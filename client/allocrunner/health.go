package allocrunner

import (
	"context"
	"time"

	"berth/client/allocrunner/lifecycle"
	"berth/structs"
)

// watchHealth decides once for each deployment of the allocation whether it is healthy, and tells the
// servers. In a service it does so also without a deployment: a drain waits for the health of the
// successors. There an unhealthy allocation can still become healthy.
func (r *Runner) watchHealth(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		next := r.decideHealth(time.Now())
		var due <-chan time.Time
		if !next.IsZero() {
			timer.Reset(time.Until(next))
			due = timer.C
		}
		select {
		case <-r.healthChanged:
		case <-due:
		case <-ctx.Done():
			return
		}
	}
}

// noteHealth makes watchHealth look again. It does not block.
func (r *Runner) noteHealth() {
	select {
	case r.healthChanged <- struct{}{}:
	default:
	}
}

// decideHealth records the health if it is known now. Otherwise it returns the time of the next look, zero if
// only another change leads to one.
func (r *Runner) decideHealth(now time.Time) (next time.Time) {
	alloc := r.Alloc()
	rule := r.group().HealthRule(alloc.DeploymentID != "")
	rec := r.health()
	if alloc.ServerTerminal() || r.Stopping() ||
		rule == nil || rule.Check == structs.HealthManual ||
		lifecycle.IsFinal(alloc, alloc.DeploymentStatus) || lifecycle.IsFinal(alloc, rec.Reported(alloc)) {
		return time.Time{}
	}

	before := rec
	if rec.Begun.IsZero() && rec.Healthy == nil && r.has(lifecycle.HooksUp) {
		rec.Begun = now
	}

	states := map[string]*structs.TaskState{}
	for _, t := range r.taskList() {
		states[t.Name] = t.State()
	}

	look := lifecycle.LookAt(rule, r.group().Tasks, states, rec.Begun)
	if look.NeedsChecks(rule) {
		since, passing := r.services.HealthySince()
		look.AddChecks(rule, since, passing)
	}

	rec.Decide(look, now)
	if rec != before {
		r.saveHealth(rec)
	}

	return look.Next(now)
}

// health returns the record for the current deployment.
func (r *Runner) health() lifecycle.Health {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rec.Health.IsOf(r.rec.Alloc) {
		return *r.rec.Health
	}
	return lifecycle.NewHealth(r.rec.Alloc)
}

func (r *Runner) saveHealth(rec lifecycle.Health) {
	err := r.saveRecord(func(all *allocRecord) { all.Health = &rec })
	if err != nil {
		r.logger.Error("failed to record the health of the allocation", "error", err)
		return
	}
	if rec.Healthy != nil {
		r.logger.Info("decided on the health of the allocation", "healthy", *rec.Healthy)
		r.passOnState()
	}
}
