package allocrunner

import (
	"context"
	"time"

	"berth/structs"
)

// healthRecord is the health of the allocation in its deployment.
type healthRecord struct {
	DeploymentID string
	// Begun is the time at which the allocation was set up, with its volumes. The healthy deadline counts from
	// then on: the wait for the volumes of a predecessor is not the fault of the new version.
	Begun   time.Time
	Healthy *bool // nil: not known
	At      time.Time
}

// watchHealth decides once for each deployment of the allocation whether it is healthy, and tells the
// servers.
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
	strategy := r.group().Update
	rec := r.health()
	if alloc.DeploymentID == "" || alloc.ServerTerminal() || r.Stopping() ||
		strategy == nil || strategy.HealthCheck == structs.HealthManual ||
		alloc.DeploymentStatus.IsKnown() || rec.Healthy != nil {
		return time.Time{}
	}
	before := rec
	if rec.Begun.IsZero() && isClosed(r.ready) {
		rec.Begun = now
	}
	states := map[string]*structs.TaskState{}
	for _, t := range r.taskList() {
		states[t.name] = t.state()
	}
	look := nextHealth(strategy, r.group().Tasks, states, rec.Begun)
	look = r.withChecks(look, strategy)
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
	h := r.rec.Health
	if h == nil || h.DeploymentID != r.rec.Alloc.DeploymentID {
		return healthRecord{DeploymentID: r.rec.Alloc.DeploymentID}
	}
	return *h
}

func (r *Runner) saveHealth(rec healthRecord) {
	err := r.saveRecord(func(all *allocRecord) { all.Health = &rec })
	if err != nil {
		r.logger.Error("failed to record the health of the allocation", "error", err)
		return
	}
	if rec.Healthy != nil {
		r.logger.Info("decided on the health of the allocation", "healthy", *rec.Healthy)
		r.deps.Changed(r.ClientState())
	}
}

// reported returns the health for the servers, nil if it is not known.
func (h *healthRecord) reported(deploymentID string) *structs.AllocDeploymentStatus {
	if h == nil || h.Healthy == nil || h.DeploymentID != deploymentID {
		return nil
	}
	return &structs.AllocDeploymentStatus{
		Healthy:   h.Healthy,
		Timestamp: h.At,
	}
}

// decide sets the health if its time has come.
func (h *healthRecord) decide(look healthLook, now time.Time) {
	healthy := look.isHealthy(now)
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

// next returns the time of the next look after now.
func (l *healthLook) next(now time.Time) time.Time {
	switch {
	case l.healthy.After(now) && (l.deadline.IsZero() || l.healthy.Before(l.deadline)):
		return l.healthy
	case l.deadline.After(now):
		return l.deadline
	}
	return time.Time{}
}

// nextHealth looks at the states of an allocation's tasks, which has been set up since begun.
func nextHealth(
	u *structs.UpdateStrategy,
	tasks []*structs.Task,
	states map[string]*structs.TaskState,
	begun time.Time,
) healthLook {
	var look healthLook
	if !begun.IsZero() {
		look.deadline = begun.Add(u.HealthyDeadline)
	}
	var since time.Time
	for _, t := range tasks {
		s := states[t.Name]
		from, runs := runsSince(t, s)
		switch {
		case t.HasHook(structs.LifecyclePoststop):
			continue
		case s != nil && s.State == structs.TaskDead && !(s.Successful() && mayEnd(t)):
			return healthLook{failed: true}
		case !runs:
			return look
		case from.After(since):
			since = from
		}
	}
	look.healthy = since.Add(u.MinHealthyTime)
	return look
}

// mayEnd reports whether a task is no fault when it ends: it prepares others, or follows their start.
func mayEnd(t *structs.Task) bool {
	return t.Lifecycle != nil && !t.Lifecycle.Sidecar
}

// runsSince returns the time since which a task is in order: it runs, with a healthy plugin if it runs one. A
// task that prepares others and has succeeded is in order.
func runsSince(t *structs.Task, s *structs.TaskState) (from time.Time, ok bool) {
	switch {
	case s == nil:
		return from, false
	case s.Successful() && mayEnd(t):
		return s.FinishedAt, true
	case s.State != structs.TaskRunning:
		return from, false
	}
	from = s.StartedAt
	if s.LastRestart.After(from) {
		from = s.LastRestart
	}
	if t.CSIPluginConfig == nil {
		return from, true
	}
	for i := len(s.Events) - 1; i >= 0; i-- {
		e := s.Events[i]
		switch e.Type {
		case structs.TaskEventPluginHealthy:
			if at := time.Unix(0, e.Time); at.After(from) {
				from = at
			}
			return from, true
		case structs.TaskEventPluginUnhealthy, structs.TaskEventStarted:
			return from, false
		}
	}
	return from, false
}
