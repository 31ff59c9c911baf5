package structs

import (
	"encoding/json"
	"time"
)

// The ways in which the health of an allocation is decided.
const (
	HealthChecks     = "checks"      // by its checks; without services it is by the states of its tasks
	HealthTaskStates = "task_states" // by the states of its tasks
	HealthManual     = "manual"      // by an operator
)

// UpdateStrategy decides how allocations of an older version of a job are replaced. With MaxParallel 0 all of
// them are replaced at once, and nothing watches over it.
type UpdateStrategy struct {
	Stagger          time.Duration // in per-node jobs: between two batches
	MaxParallel      int           // allocations that are replaced before the first of them is healthy
	HealthCheck      string
	MinHealthyTime   time.Duration // without a restart, after which an allocation is healthy
	HealthyDeadline  time.Duration // after which an allocation that is not healthy is unhealthy
	ProgressDeadline time.Duration // within which another allocation is healthy; 0: none may be unhealthy
	AutoRevert       bool          // a failed deployment goes back to the newest stable version
	AutoPromote      bool          // healthy canaries are promoted without an operator
	Canary           int           // allocations of the new version beside the old one
}

// MigrateStrategy is the pace at which the allocations of a group leave nodes that drain.
type MigrateStrategy struct {
	MaxParallel     int
	HealthCheck     string
	MinHealthyTime  time.Duration
	HealthyDeadline time.Duration
}

// DefaultUpdateStrategy returns the strategy of service jobs.
func DefaultUpdateStrategy() UpdateStrategy {
	return UpdateStrategy{
		Stagger:          30 * time.Second,
		MaxParallel:      1,
		HealthCheck:      HealthChecks,
		MinHealthyTime:   10 * time.Second,
		HealthyDeadline:  5 * time.Minute,
		ProgressDeadline: 10 * time.Minute,
	}
}

// DefaultMigrateStrategy returns the strategy of service jobs.
func DefaultMigrateStrategy() MigrateStrategy {
	return MigrateStrategy{
		MaxParallel:     1,
		HealthCheck:     HealthChecks,
		MinHealthyTime:  10 * time.Second,
		HealthyDeadline: 5 * time.Minute,
	}
}

type (
	plainUpdateStrategy  UpdateStrategy
	plainMigrateStrategy MigrateStrategy
)

// UnmarshalJSON reads a strategy. A field that is left out has its default, because 0 is a value for some.
func (u *UpdateStrategy) UnmarshalJSON(b []byte) error {
	v := plainUpdateStrategy(DefaultUpdateStrategy())
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	*u = UpdateStrategy(v)
	return nil
}

// UnmarshalJSON reads a strategy. A field that is left out has its default.
func (m *MigrateStrategy) UnmarshalJSON(b []byte) error {
	v := plainMigrateStrategy(DefaultMigrateStrategy())
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	*m = MigrateStrategy(v)
	return nil
}

// Rolls reports whether the strategy replaces allocations a few at a time.
func (u *UpdateStrategy) Rolls() bool {
	return u != nil && u.MaxParallel > 0
}

// Exclusive reports whether the volume has at most one allocation that makes this request.
func (r *VolumeRequest) Exclusive() bool {
	own := r.Claim("", 0, "").Class()
	return r.Lifecycle == "" && own.Conflicts(own)
}

// HoldsVolumesAlone reports whether each allocation of the group has a CSI volume for itself, so that its
// successor waits for its end.
func (g *TaskGroup) HoldsVolumesAlone() bool {
	for _, v := range g.Volumes {
		if v.NeedsClaim() && v.Exclusive() {
			return true
		}
	}
	return false
}

// HasPerAlloc reports whether each allocation of the group has a volume of its own index.
func (g *TaskGroup) HasPerAlloc() bool {
	for _, v := range g.Volumes {
		if v != nil && v.PerAlloc {
			return true
		}
	}
	return false
}
