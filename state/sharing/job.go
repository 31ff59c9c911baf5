package sharing

import (
	"slices"

	"berth/internal/mvcc"
	"berth/structs"
)

// Job shares the parts of a new version of a job that many jobs have in common. The configuration of a
// driver is not shared: most jobs have their own command line.
func Job(j *structs.Job) {
	mvcc.InternTexts(&j.Namespace, &j.ID, &j.Name, &j.Type, &j.NodePool)
	j.Datacenters = *mvcc.InternValue(&j.Datacenters)
	if !j.Dispatched { // each dispatch has metadata of its own, which would displace what others share
		j.Meta = *mvcc.InternValue(&j.Meta)
	}

	j.Constraints = ownValues(j.Constraints)
	j.Update = mvcc.InternValue(j.Update)

	// The list and the groups may belong to another version, so copies are changed.
	j.TaskGroups = slices.Clone(j.TaskGroups)
	for i, g := range j.TaskGroups {
		j.TaskGroups[i] = ownGroup(g)
	}
}

// ownGroup returns a copy of a group with shared parts.
func ownGroup(g *structs.TaskGroup) *structs.TaskGroup {
	c := *g
	mvcc.InternTexts(&c.Name)
	c.Constraints = ownValues(g.Constraints)
	c.RestartPolicy = mvcc.InternValue(g.RestartPolicy)
	c.ReschedulePolicy = mvcc.InternValue(g.ReschedulePolicy)
	c.Update = mvcc.InternValue(g.Update)
	c.Migrate = mvcc.InternValue(g.Migrate)
	c.EphemeralDisk = mvcc.InternValue(g.EphemeralDisk)
	c.Meta = *mvcc.InternValue(&g.Meta)

	// As the groups, the tasks may belong to another version.
	c.Tasks = slices.Clone(g.Tasks)
	for i, t := range g.Tasks {
		c.Tasks[i] = ownTask(t)
	}

	return &c
}

// ownTask returns a copy of a task with shared parts.
func ownTask(t *structs.Task) *structs.Task {
	c := *t
	mvcc.InternTexts(&c.Name, &c.Driver, &c.User, &c.KillSignal)
	c.Env = mvcc.InternMap(t.Env)
	c.Constraints = ownValues(t.Constraints)
	c.RestartPolicy = mvcc.InternValue(t.RestartPolicy)
	c.Resources = mvcc.InternValue(t.Resources)
	c.Meta = *mvcc.InternValue(&t.Meta)
	c.LogConfig = mvcc.InternValue(t.LogConfig)
	return &c
}

// ownValues returns a list of shared values that equal values, nil for nil.
func ownValues[T any](values []*T) []*T {
	own := slices.Clone(values)
	for i, v := range own {
		own[i] = mvcc.InternValue(v)
	}
	return own
}
