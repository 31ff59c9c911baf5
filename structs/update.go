package structs

import (
	"encoding/json"
	"maps"
	"slices"
	"time"
)

// The ways in which the health of an allocation is decided.
const (
	HealthChecks     = "checks"      // by its checks; without services it is by the states of its tasks
	HealthTaskStates = "task_states" // by the states of its tasks
	HealthManual     = "manual"      // by an operator
)

var healthChecks = []string{HealthChecks, HealthTaskStates, HealthManual}

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

// canonicalizeUpdates merges the strategies of the job into its groups and completes them. As in the dialect,
// the job itself keeps the parts that concern jobs on every node.
func (j *Job) canonicalizeUpdates() {
	if j.Update != nil && *j.Update == (UpdateStrategy{}) {
		j.Update = nil // clients of the dialect send an empty one for types that have none
	}

	if j.Update == nil && j.Type == JobService {
		j.Update = new(DefaultUpdateStrategy())
	}

	if j.Migrate != nil && *j.Migrate == (MigrateStrategy{}) {
		j.Migrate = nil
	}

	if j.Migrate == nil && j.Type == JobService {
		j.Migrate = new(DefaultMigrateStrategy())
	}

	for _, g := range j.TaskGroups {
		if g != nil {
			g.Update = g.Update.withDefaults(j)
			g.Migrate = g.Migrate.withDefaults(j)
		}
	}

	if j.Update != nil {
		kept := UpdateStrategy{
			Stagger:     j.Update.Stagger,
			MaxParallel: j.Update.MaxParallel,
		}
		if kept != *j.Update {
			j.Update = &kept
		}
	}

	j.Migrate = nil
}

func (u *UpdateStrategy) withDefaults(j *Job) *UpdateStrategy {
	switch {
	case u == nil && j.Update == nil:
		return nil
	case u == nil && j.Update.HealthCheck == "": // what the job keeps, and a client sends again
		own := DefaultUpdateStrategy()
		own.Stagger = j.Update.Stagger
		own.MaxParallel = j.Update.MaxParallel
		u = &own

	case u == nil:
		u = new(*j.Update)
	case j.Type != JobService && *u == (UpdateStrategy{}):
		return nil
	}

	def := DefaultUpdateStrategy()
	setDefault(&u.Stagger, def.Stagger)
	setDefault(&u.HealthCheck, def.HealthCheck)
	setDefault(&u.HealthyDeadline, def.HealthyDeadline)
	if j.Type == JobSystem && u.Canary > 0 { // see updateWarnings
		u.Canary = 0
		u.AutoPromote = false
	}

	return u
}

func (m *MigrateStrategy) withDefaults(j *Job) *MigrateStrategy {
	switch {
	case m == nil:
		return clonePtr(j.Migrate)
	case j.Type != JobService && *m == (MigrateStrategy{}):
		return nil
	}
	def := DefaultMigrateStrategy()
	setDefault(&m.MaxParallel, def.MaxParallel)
	setDefault(&m.HealthCheck, def.HealthCheck)
	setDefault(&m.HealthyDeadline, def.HealthyDeadline)
	return m
}

// validateUpdate checks what the job keeps of its strategy.
func (j *Job) validateUpdate(f fieldErrors) {
	if j.Update != nil {
		f.checkRange("max_parallel", j.Update.MaxParallel, intRange{0, MaxGroupCount, ""})
		f.checkDuration("stagger", j.Update.Stagger, MaxInterval)
	}
}

func (g *TaskGroup) validateUpdate(f fieldErrors, j *Job) {
	if u := g.Update; u != nil {
		f := f.at("update")
		f.require(j.Type == JobService || j.Type == JobSystem,
			"a %s job has none: no version of it replaces another while it runs", j.Type)
		u.validate(f)
		g.validateCanaries(f)
	}
	if m := g.Migrate; m != nil {
		f := f.at("migrate")
		f.require(j.Type == JobService, "a %s job has none", j.Type)
		m.validate(f)
	}
}

func (u *UpdateStrategy) validate(f fieldErrors) {
	f.checkRange("max_parallel", u.MaxParallel, intRange{0, MaxGroupCount, ""})
	f.checkRange("canary", u.Canary, intRange{0, MaxGroupCount, ""})
	f.checkDuration("stagger", u.Stagger, MaxInterval)
	f.checkDuration("progress_deadline", u.ProgressDeadline, MaxInterval)
	checkHealth(f, u.HealthCheck, u.MinHealthyTime, u.HealthyDeadline)
	f.require(u.ProgressDeadline == 0 || u.HealthyDeadline < u.ProgressDeadline,
		"healthy_deadline %s must be below progress_deadline %s", u.HealthyDeadline, u.ProgressDeadline)
	f.require(!u.AutoPromote || u.Canary > 0, "auto_promote needs canary above 0")
	f.require(u.MaxParallel > 0 || u.Canary == 0,
		"canary needs max_parallel above 0: with 0 all allocations are replaced at once")
}

func (m *MigrateStrategy) validate(f fieldErrors) {
	f.checkRange("max_parallel", m.MaxParallel, intRange{1, MaxGroupCount, ""})
	f.require(m.HealthCheck != HealthManual,
		"health_check must be %s or %s: nobody is asked about an allocation that a drain moves",
		HealthChecks, HealthTaskStates)
	checkHealth(f, m.HealthCheck, m.MinHealthyTime, m.HealthyDeadline)
}

func checkHealth(f fieldErrors, check string, least, deadline time.Duration) {
	f.checkOneOf("health_check", check, healthChecks)
	f.checkDuration("min_healthy_time", least, MaxInterval)
	f.checkDuration("healthy_deadline", deadline, MaxInterval)
	f.require(least < deadline, "min_healthy_time %s must be below healthy_deadline %s", least, deadline)
}

// validateCanaries rejects canaries that could never get a volume: the allocation of the old version has it
// until the canary is promoted, or it is the volume of an index beyond the count.
func (g *TaskGroup) validateCanaries(f fieldErrors) {
	if g.Update.Canary == 0 {
		return
	}
	f.require(!g.HasPerAlloc() || g.Count == 0 || g.Update.Canary <= g.Count,
		"canary %d is above the count %d: with per_alloc there are no volumes for the canaries beyond it",
		g.Update.Canary, g.Count)
	for _, alias := range slices.Sorted(maps.Keys(g.Volumes)) {
		v := g.Volumes[alias]
		if v != nil && v.Type == VolumeTypeCSI && v.Exclusive() {
			f.addf("canary: volume %q has access_mode %s, so a canary would wait for the allocation that it is "+
				"to replace; leave canary out", alias, v.AccessMode)
		}
	}
}

// Exclusive reports whether the volume has at most one allocation that makes this request.
func (r *VolumeRequest) Exclusive() bool {
	own := r.Claim("", 0).Class()
	return own.Conflicts(own)
}

// HoldsVolumesAlone reports whether each allocation of the group has a CSI volume for itself, so that its
// successor waits for its end.
func (g *TaskGroup) HoldsVolumesAlone() bool {
	for _, v := range g.Volumes {
		if v != nil && v.Type == VolumeTypeCSI && v.Exclusive() {
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

// updateWarnings describes strategies that do not do what their writer may expect.
func (j *Job) updateWarnings() []string {
	if j.Type == JobSystem || j.Type == JobSysBatch {
		return j.perNodeWarnings()
	}

	canaries := 0
	promoted := 0
	for _, g := range j.TaskGroups {
		if g == nil || g.Update == nil || g.Update.Canary == 0 {
			continue
		}

		canaries++
		if g.Update.AutoPromote {
			promoted++
		}
	}

	if promoted == 0 || promoted == canaries {
		return nil
	}

	return []string{"auto_promote is set for some groups with canaries and not for others; " +
		"canaries are promoted without an operator only if it is set for all"}
}
