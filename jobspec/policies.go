package jobspec

import (
	"berth/structs"
	"berth/structs/defaults"
)

// policies sets the policies of a group that the job may have, too: the block of the group changes the
// block of the job.
func (c *converter) policies(g *group, out *structs.TaskGroup) {
	reschedule := defaults.ReschedulePolicy(c.jobType)
	update := structs.DefaultUpdateStrategy()
	migrate := structs.DefaultMigrateStrategy()
	j := c.around()
	// The block of the job becomes the default that the block of the group changes.
	if of := j.Reschedule.override(reschedule); of != nil {
		out.ReschedulePolicy = of
		reschedule = of
	}

	if of := j.Update.override(update); of != nil {
		update = *of
	}

	if of := j.Migrate.override(migrate); of != nil {
		migrate = *of
	}

	if g.Reschedule != nil {
		out.ReschedulePolicy = g.Reschedule.override(reschedule)
	}

	out.Update = g.Update.override(update)
	out.Migrate = g.Migrate.override(migrate)
	if s := g.Scaling; s != nil {
		out.Scaling = &structs.ScalingPolicy{
			Type:    s.Type,
			Min:     s.Min,
			Max:     &s.Max,
			Policy:  s.Policy,
			Enabled: s.Enabled,
		}

		if s.Min != nil {
			// A group that is scaled begins with its least count, unless it names one.
			out.Count = int(*s.Min)
		}
	}
}

// around returns the job around a group, an empty one for a group alone.
func (c *converter) around() job {
	if c.ofJob == nil {
		return job{}
	}
	return *c.ofJob
}

func (u *update) override(s structs.UpdateStrategy) *structs.UpdateStrategy {
	if u == nil {
		return nil
	}
	override(&s.Stagger, u.Stagger)
	override(&s.MaxParallel, u.MaxParallel)
	override(&s.HealthCheck, u.HealthCheck)
	override(&s.MinHealthyTime, u.MinHealthyTime)
	override(&s.HealthyDeadline, u.HealthyDeadline)
	override(&s.ProgressDeadline, u.ProgressDeadline)
	override(&s.AutoRevert, u.AutoRevert)
	override(&s.AutoPromote, u.AutoPromote)
	override(&s.Canary, u.Canary)
	return &s
}

func (m *migrate) override(s structs.MigrateStrategy) *structs.MigrateStrategy {
	if m == nil {
		return nil
	}
	override(&s.MaxParallel, m.MaxParallel)
	override(&s.HealthCheck, m.HealthCheck)
	override(&s.MinHealthyTime, m.MinHealthyTime)
	override(&s.HealthyDeadline, m.HealthyDeadline)
	return &s
}
