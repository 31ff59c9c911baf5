package sharing

import (
	"slices"

	"berth/internal/intern"
	"berth/structs"
)

// Job shares the parts of a new version of a job that many jobs have in common. The configuration of a
// driver is not shared: most jobs have their own command line.
func Job(j *structs.Job) {
	intern.Texts(&j.Namespace, &j.ID, &j.Name, &j.Type, &j.NodePool)
	j.Datacenters = *intern.Value(&j.Datacenters)
	if !j.Dispatched { // each dispatch has metadata of its own, which would displace what others share
		j.Meta = *intern.Value(&j.Meta)
	}

	j.Constraints = ownValues(j.Constraints)
	j.Update = intern.Value(j.Update)

	// The list and the groups may be those of another version, so copies are changed.
	j.TaskGroups = slices.Clone(j.TaskGroups)
	for i, g := range j.TaskGroups {
		j.TaskGroups[i] = ownGroup(g)
	}
}

// ownGroup returns a copy of a group with shared parts.
func ownGroup(g *structs.TaskGroup) *structs.TaskGroup {
	c := *g
	intern.Texts(&c.Name)
	c.Constraints = ownValues(g.Constraints)
	c.RestartPolicy = intern.Value(g.RestartPolicy)
	c.ReschedulePolicy = intern.Value(g.ReschedulePolicy)
	c.Update = intern.Value(g.Update)
	c.Migrate = intern.Value(g.Migrate)
	c.EphemeralDisk = intern.Value(g.EphemeralDisk)
	c.Meta = *intern.Value(&g.Meta)

	// As the groups, the tasks may be those of another version.
	c.Tasks = slices.Clone(g.Tasks)
	for i, t := range g.Tasks {
		c.Tasks[i] = ownTask(t)
	}

	return &c
}

// ownTask returns a copy of a task with shared parts.
func ownTask(t *structs.Task) *structs.Task {
	c := *t
	intern.Texts(&c.Name, &c.Driver, &c.User, &c.KillSignal)
	c.Env = intern.Map(t.Env)
	c.Constraints = ownValues(t.Constraints)
	c.RestartPolicy = intern.Value(t.RestartPolicy)
	c.Resources = intern.Value(t.Resources)
	c.Meta = *intern.Value(&t.Meta)
	c.LogConfig = intern.Value(t.LogConfig)
	return &c
}

// ownValues returns a list of shared values that equal values, nil for nil.
func ownValues[T any](values []*T) []*T {
	own := slices.Clone(values)
	for i, v := range own {
		own[i] = intern.Value(v)
	}
	return own
}
