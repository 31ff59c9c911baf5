package defaults

import "berth/structs"

// canonicalizeUpdates merges the strategies of the job into its groups and completes them. As in the dialect,
// the job itself keeps the parts that concern jobs on every node.
func canonicalizeUpdates(j *structs.Job) {
	if j.Update != nil && *j.Update == (structs.UpdateStrategy{}) {
		j.Update = nil // clients of the dialect send an empty one for types that have none
	}

	if j.Update == nil && j.Type == structs.JobService {
		j.Update = new(structs.DefaultUpdateStrategy())
	}

	if j.Migrate != nil && *j.Migrate == (structs.MigrateStrategy{}) {
		j.Migrate = nil
	}

	if j.Migrate == nil && j.Type == structs.JobService {
		j.Migrate = new(structs.DefaultMigrateStrategy())
	}

	for _, g := range j.TaskGroups {
		if g != nil {
			g.Update = completeUpdate(g.Update, j)
			g.Migrate = completeMigrate(g.Migrate, j)
		}
	}

	// The groups have their own strategies from here on. The job shows two fields of it, as in the dialect.
	if j.Update != nil {
		kept := structs.UpdateStrategy{
			Stagger:     j.Update.Stagger,
			MaxParallel: j.Update.MaxParallel,
		}
		if kept != *j.Update {
			j.Update = &kept
		}
	}

	j.Migrate = nil
}

// completeUpdate returns the strategy of a group, which is completed from its job's. It returns nil for
// a group without one.
func completeUpdate(u *structs.UpdateStrategy, j *structs.Job) *structs.UpdateStrategy {
	switch {
	case u == nil && j.Update == nil:
		return nil
	case u == nil && j.Update.HealthCheck == "": // what the job keeps, and a client sends again
		own := structs.DefaultUpdateStrategy()
		own.Stagger = j.Update.Stagger
		own.MaxParallel = j.Update.MaxParallel
		u = &own

	case u == nil:
		// A copy, because each group may change its own.
		u = new(*j.Update)
	// An empty strategy means none for the other types, which have no default.
	case j.Type != structs.JobService && *u == (structs.UpdateStrategy{}):
		return nil
	}

	def := structs.DefaultUpdateStrategy()
	setDefault(&u.Stagger, def.Stagger)
	setDefault(&u.HealthCheck, def.HealthCheck)
	setDefault(&u.HealthyDeadline, def.HealthyDeadline)
	if j.Type == structs.JobSystem && u.Canary > 0 { // see validate.JobWarnings
		u.Canary = 0
		u.AutoPromote = false
	}

	return u
}

// completeMigrate returns the strategy of a group for drains, completed from the defaults, or its job's. It
// returns nil for a group without one.
func completeMigrate(m *structs.MigrateStrategy, j *structs.Job) *structs.MigrateStrategy {
	switch {
	case m == nil && j.Migrate == nil:
		return nil
	case m == nil:
		return new(*j.Migrate)
	case j.Type != structs.JobService && *m == (structs.MigrateStrategy{}):
		return nil
	}
	def := structs.DefaultMigrateStrategy()
	setDefault(&m.MaxParallel, def.MaxParallel)
	setDefault(&m.HealthCheck, def.HealthCheck)
	setDefault(&m.HealthyDeadline, def.HealthyDeadline)
	return m
}

// canonicalScaling returns the policy with the defaults for a group with the count. A job does not set what
// the servers answer.
func canonicalScaling(p *structs.ScalingPolicy, count int) *structs.ScalingPolicy {
	if p == nil {
		return nil
	}

	// A copy, because the caller may share the policy.
	c := *p
	if c.Type == "" {
		c.Type = structs.ScalingHorizontal
	}

	if c.Min == nil {
		c.Min = new(int64(count))
	}

	if c.Enabled == nil {
		c.Enabled = new(true)
	}

	if len(c.Policy) == 0 {
		c.Policy = nil
	}

	// The servers answer these fields, and a client may send an answer again.
	c.ID = ""
	c.Namespace = ""
	c.Target = nil
	c.Indexes = structs.Indexes{}
	return &c
}
