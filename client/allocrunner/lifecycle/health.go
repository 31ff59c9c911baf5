package lifecycle

import (
	"time"

	"berth/structs"
)

// Health is the health of the allocation in its deployment, or by itself if it is in none.
type Health struct {
	DeploymentID string
	JobVersion   uint64 `codec:",omitempty"` // without a deployment each version is decided on anew
	// Begun is the time at which the allocation was set up, with its volumes. The healthy deadline counts
	// from then on: the wait for the volumes of a predecessor is not the fault of the new version.
	Begun   time.Time
	Healthy *bool // nil: not known
	At      time.Time
}

// NewHealth returns the record of an allocation as it is now, before the decision.
func NewHealth(a *structs.Allocation) Health {
	h := Health{DeploymentID: a.DeploymentID}
	if h.DeploymentID == "" {
		h.JobVersion = a.JobVersion
	}
	return h
}

// IsOf reports whether the record is about the allocation as it is now.
func (h *Health) IsOf(a *structs.Allocation) bool {
	return h != nil && h.DeploymentID == a.DeploymentID &&
		(h.DeploymentID != "" || h.JobVersion == a.JobVersion)
}

// Reported returns the health for the servers, nil if it is not known.
func (h *Health) Reported(a *structs.Allocation) *structs.AllocDeploymentStatus {
	if !h.IsOf(a) || h.Healthy == nil {
		return nil
	}
	return &structs.AllocDeploymentStatus{
		Healthy:   h.Healthy,
		Timestamp: h.At,
	}
}

// IsFinal reports whether the health of an allocation stays. Without a deployment, only a healthy one does.
func IsFinal(a *structs.Allocation, h *structs.AllocDeploymentStatus) bool {
	return h.IsHealthy() || h.IsUnhealthy() && a.DeploymentID != ""
}

// Decide sets the health if its time has come. An unhealthy allocation can only become healthy.
func (h *Health) Decide(look Look, now time.Time) {
	healthy := look.isHealthy(now)
	if h.Healthy != nil && !healthy {
		return
	}
	if healthy || look.Failed || !look.Deadline.IsZero() && !now.Before(look.Deadline) {
		h.Healthy = &healthy
		h.At = now
	}
}

// Look is what the states of the tasks say about the health.
type Look struct {
	Failed   bool      // a task has ended that is to run
	Healthy  time.Time // when the tasks have run for long enough; zero while one does not run
	Deadline time.Time // from when on the allocation is unhealthy; zero while it is being set up
}

func (l *Look) isHealthy(now time.Time) bool {
	return !l.Failed && !l.Healthy.IsZero() && !now.Before(l.Healthy)
}

// Next returns the time of the next look after now. A deadline that has passed does not count.
func (l *Look) Next(now time.Time) time.Time {
	expects := l.Deadline.After(now)
	switch {
	case l.Healthy.After(now) && (!expects || l.Healthy.Before(l.Deadline)):
		return l.Healthy
	case expects:
		return l.Deadline
	}
	return time.Time{}
}

// LookAt looks at the states of the tasks of an allocation that has been set up since begun.
func LookAt(
	rule *structs.HealthRule,
	tasks []*structs.Task,
	states map[string]*structs.TaskState,
	begun time.Time,
) Look {
	var look Look
	if !begun.IsZero() {
		look.Deadline = begun.Add(rule.Deadline)
	}
	order := structs.OrderOf(tasks, states)
	switch {
	case order.Failed:
		return Look{Failed: true}
	case !order.Since.IsZero():
		look.Healthy = order.Since.Add(rule.MinTime)
	}
	return look
}

// NeedsChecks reports whether the health depends on the checks of services, too.
func (l *Look) NeedsChecks(rule *structs.HealthRule) bool {
	return !l.Healthy.IsZero() && rule.Check == structs.HealthChecks
}

// AddChecks adds the checks of services to the states of the tasks: all of them pass since a time, or not all
// of them pass.
func (l *Look) AddChecks(rule *structs.HealthRule, since time.Time, passing bool) {
	if !passing {
		l.Healthy = time.Time{}
		return
	}
	if from := since.Add(rule.MinTime); from.After(l.Healthy) {
		l.Healthy = from
	}
}
