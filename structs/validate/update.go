package validate

import (
	"maps"
	"slices"
	"time"

	"berth/structs"
	"berth/structs/validate/field"
)

var healthChecks = []string{structs.HealthChecks, structs.HealthTaskStates, structs.HealthManual}

// checkJobUpdate checks what the job keeps of its strategy.
func checkJobUpdate(f field.Errors, j *structs.Job) {
	if j.Update != nil {
		f.CheckRange("max_parallel", j.Update.MaxParallel, field.Between(0, structs.MaxGroupCount))
		f.CheckDuration("stagger", j.Update.Stagger, structs.MaxInterval)
	}
}

// checkGroupUpdate checks how a group replaces its allocations, by a new version and by the drain of a node.
func checkGroupUpdate(f field.Errors, g *structs.TaskGroup, j *structs.Job) {
	if u := g.Update; u != nil {
		f := f.At("update")
		f.Require(j.Type == structs.JobService || j.Type == structs.JobSystem,
			"a %s job has none: no version of it replaces another while it runs", j.Type)
		checkUpdate(f, u)
		checkCanaries(f, g)
	}

	if m := g.Migrate; m != nil {
		f := f.At("migrate")
		f.Require(j.Type == structs.JobService, "a %s job has none", j.Type)
		checkMigrate(f, m)
	}
}

// checkUpdate checks the numbers and times of an update against each other.
func checkUpdate(f field.Errors, u *structs.UpdateStrategy) {
	f.CheckRange("max_parallel", u.MaxParallel, field.Between(0, structs.MaxGroupCount))
	f.CheckRange("canary", u.Canary, field.Between(0, structs.MaxGroupCount))
	f.CheckDuration("stagger", u.Stagger, structs.MaxInterval)
	f.CheckDuration("progress_deadline", u.ProgressDeadline, structs.MaxInterval)
	checkHealth(f, u.HealthCheck, u.MinHealthyTime, u.HealthyDeadline)

	// An allocation has to be able to become healthy before its deployment fails for the lack of progress.
	f.Require(u.ProgressDeadline == 0 || u.HealthyDeadline < u.ProgressDeadline,
		"healthy_deadline %s must be below progress_deadline %s", u.HealthyDeadline, u.ProgressDeadline)
	f.Require(!u.AutoPromote || u.Canary > 0, "auto_promote needs canary above 0")
	f.Require(u.MaxParallel > 0 || u.Canary == 0,
		"canary needs max_parallel above 0: with 0 all allocations are replaced at once")
}

// checkMigrate checks how a drain moves the allocations of a group.
func checkMigrate(f field.Errors, m *structs.MigrateStrategy) {
	f.CheckRange("max_parallel", m.MaxParallel, field.Between(1, structs.MaxGroupCount))
	f.Require(m.HealthCheck != structs.HealthManual,
		"health_check must be %s or %s: nobody is asked about an allocation that a drain moves",
		structs.HealthChecks, structs.HealthTaskStates)
	checkHealth(f, m.HealthCheck, m.MinHealthyTime, m.HealthyDeadline)
}

// checkHealth checks when an allocation is healthy. It could never be, if it had to be well for longer than
// its deadline.
func checkHealth(f field.Errors, check string, least, deadline time.Duration) {
	f.CheckOneOf("health_check", check, healthChecks)
	f.CheckDuration("min_healthy_time", least, structs.MaxInterval)
	f.CheckDuration("healthy_deadline", deadline, structs.MaxInterval)
	f.Require(least < deadline, "min_healthy_time %s must be below healthy_deadline %s", least, deadline)
}

// checkCanaries rejects canaries that could never get a volume: the allocation of the old version has it
// until the canary is promoted, or it is the volume of an index beyond the count.
func checkCanaries(f field.Errors, g *structs.TaskGroup) {
	if g.Update.Canary == 0 {
		return
	}

	f.Require(!g.HasPerAlloc() || g.Count == 0 || g.Update.Canary <= g.Count,
		"canary %d is above the count %d: with per_alloc there are no volumes for the canaries beyond it",
		g.Update.Canary, g.Count)
	for _, alias := range slices.Sorted(maps.Keys(g.Volumes)) {
		v := g.Volumes[alias]
		if v.NeedsClaim() && v.Exclusive() {
			f.Addf("canary: volume %q has access_mode %s, so a canary would wait for the allocation that it is "+
				"to replace; leave canary out", alias, v.AccessMode)
		}
	}
}

// checkScaling checks the bounds between which the count of a group may be changed, and its count against
// them.
func checkScaling(f field.Errors, g *structs.TaskGroup, j *structs.Job) {
	p := g.Scaling
	if p == nil {
		return
	}

	f = f.At("scaling")
	f.Require(!j.PerNode(), "a %s job has none: it runs on every feasible node", j.Type)
	f.Require(p.Type == structs.ScalingHorizontal, "type %q must be %q", p.Type, structs.ScalingHorizontal)
	f.Require(field.NestsWithin(p.Policy, structs.MaxConfigNesting),
		"policy nests maps and lists more than %d levels deep", structs.MaxConfigNesting)
	if p.Max == nil {
		f.Addf("max is required")
		return
	}

	bounds := field.Between(0, structs.MaxGroupCount)
	f.CheckRange("max", int(*p.Max), bounds)
	if p.Min != nil {
		f.CheckRange("min", int(*p.Min), bounds)
		f.Require(*p.Min <= *p.Max, "min %d must not be above max %d", *p.Min, *p.Max)
	}

	// Bounds that exclude each other hold no count, and have a fault already.
	if err := p.Holds(int64(g.Count)); err != nil && (p.Min == nil || *p.Min <= *p.Max) {
		f.Addf("%v", err)
	}
}
