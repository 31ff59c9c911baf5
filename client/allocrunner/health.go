package allocrunner

import (
	"context"
	"time"

	"berth/structs"
)

// healthRecord is the health of the allocation in its deployment, or by itself if it is in none.
type healthRecord struct {
	DeploymentID string
	JobVersion   uint64 `codec:",omitempty"` // without a deployment each version is decided on anew
	// Begun is the time at which the allocation was set up, with its volumes. The healthy deadline counts from
	// then on: the wait for the volumes of a predecessor is not the fault of the new version.
	Begun   time.Time
	Healthy *bool // nil: not known
	At      time.Time
}

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
		isFinal(alloc, alloc.DeploymentStatus) || isFinal(alloc, rec.reported(alloc)) {
		return time.Time{}
	}

	before := rec
	if rec.Begun.IsZero() && rec.Healthy == nil && r.has(hooksUp) {
		rec.Begun = now
	}

	states := map[string]*structs.TaskState{}
	for _, t := range r.taskList() {
		states[t.name] = t.state()
	}

	look := nextHealth(rule, r.group().Tasks, states, rec.Begun)
	look = r.withChecks(look, rule)
	rec.decide(look, now)
	if rec != before {
		r.saveHealth(rec)
	}

	return look.next(now)
}

// health returns the record for the current deployment.
func (r *Runner) health() healthRecord {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rec.Health.isOf(r.rec.Alloc) {
		return *r.rec.Health
	}
	h := healthRecord{DeploymentID: r.rec.Alloc.DeploymentID}
	if h.DeploymentID == "" {
		h.JobVersion = r.rec.Alloc.JobVersion
	}
	return h
}

// isOf reports whether the record is that of the allocation as it is now.
func (h *healthRecord) isOf(a *structs.Allocation) bool {
	return h != nil && h.DeploymentID == a.DeploymentID &&
		(h.DeploymentID != "" || h.JobVersion == a.JobVersion)
}

func (r *Runner) saveHealth(rec healthRecord) {
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

// reported returns the health for the servers, nil if it is not known.
func (h *healthRecord) reported(a *structs.Allocation) *structs.AllocDeploymentStatus {
	if !h.isOf(a) || h.Healthy == nil {
		return nil
	}
	return &structs.AllocDeploymentStatus{
		Healthy:   h.Healthy,
		Timestamp: h.At,
	}
}

// isFinal reports whether the health of an allocation stays. Without a deployment, only a healthy one does.
func isFinal(a *structs.Allocation, h *structs.AllocDeploymentStatus) bool {
	return h.IsHealthy() || h.IsUnhealthy() && a.DeploymentID != ""
}

// decide sets the health if its time has come. An unhealthy allocation can only become healthy.
func (h *healthRecord) decide(look healthLook, now time.Time) {
	healthy := look.isHealthy(now)
	if h.Healthy != nil && !healthy {
		return
	}
	if healthy || look.failed || !look.deadline.IsZero() && !now.Before(look.deadline) {
		h.Healthy = &healthy
		h.At = now
	}
}

// healthLook is what the states of the tasks say about the health.
type healthLook struct {
	failed   bool      // a task has ended that is to run
	healthy  time.Time // when the tasks have run for long enough; zero while one does not run
	deadline time.Time // from when on the allocation is unhealthy; zero while it is being set up
}

func (l *healthLook) isHealthy(now time.Time) bool {
	return !l.failed && !l.healthy.IsZero() && !now.Before(l.healthy)
}

// next returns the time of the next look after now. A deadline that has passed does not count.
func (l *healthLook) next(now time.Time) time.Time {
	expects := l.deadline.After(now)
	switch {
	case l.healthy.After(now) && (!expects || l.healthy.Before(l.deadline)):
		return l.healthy
	case expects:
		return l.deadline
	}
	return time.Time{}
}

// nextHealth looks at the states of an allocation's tasks, which has been set up since begun.
func nextHealth(
	rule *structs.HealthRule,
	tasks []*structs.Task,
	states map[string]*structs.TaskState,
	begun time.Time,
) healthLook {
	var look healthLook
	if !begun.IsZero() {
		look.deadline = begun.Add(rule.Deadline)
	}
	order := structs.OrderOf(tasks, states)
	switch {
	case order.Failed:
		return healthLook{failed: true}
	case !order.Since.IsZero():
		look.healthy = order.Since.Add(rule.MinTime)
	}
	return look
}
