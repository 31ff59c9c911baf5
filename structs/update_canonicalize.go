package structs

// canonicalizeUpdates merges the strategies of the job into its groups and completes them. As in the dialect,
// the job itself keeps the parts that concern jobs on every node.
func canonicalizeUpdates(j *Job) {
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
			g.Update = completeUpdate(g.Update, j)
			g.Migrate = completeMigrate(g.Migrate, j)
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

func completeUpdate(u *UpdateStrategy, j *Job) *UpdateStrategy {
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
	if j.Type == JobSystem && u.Canary > 0 { // see validate.JobWarnings
		u.Canary = 0
		u.AutoPromote = false
	}

	return u
}

func completeMigrate(m *MigrateStrategy, j *Job) *MigrateStrategy {
	switch {
	case m == nil && j.Migrate == nil:
		return nil
	case m == nil:
		return new(*j.Migrate)
	case j.Type != JobService && *m == (MigrateStrategy{}):
		return nil
	}
	def := DefaultMigrateStrategy()
	setDefault(&m.MaxParallel, def.MaxParallel)
	setDefault(&m.HealthCheck, def.HealthCheck)
	setDefault(&m.HealthyDeadline, def.HealthyDeadline)
	return m
}

// canonicalScaling returns the policy with the defaults for a group with the count. A job does not set what
// the servers answer.
func canonicalScaling(p *ScalingPolicy, count int) *ScalingPolicy {
	if p == nil {
		return nil
	}

	c := *p
	if c.Type == "" {
		c.Type = ScalingHorizontal
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

	c.ID = ""
	c.Namespace = ""
	c.Target = nil
	c.Indexes = Indexes{}
	return &c
}
