package scheduler

import (
	"berth/structs"
)

// The annotations of differences, as the dialect has them.
const (
	forcesCreate      = "forces create"
	forcesDestroy     = "forces destroy"
	forcesInPlace     = "forces in-place update"
	forcesDestructive = "forces create/destroy update"
)

// AnnotateChanges adds to the difference between two versions of a job its effects on the allocations. old
// may be nil.
func AnnotateChanges(
	diff *structs.JobDiff, old, now *structs.Job, desired map[string]*structs.DesiredUpdates,
) {
	for _, g := range diff.TaskGroups {
		// A group that only the old version has may have no counts.
		u := desired[g.Name]
		if u != nil {
			g.Updates = updatesOf(u)
		}

		annotateCount(g)
		var before *structs.TaskGroup
		if old != nil {
			before = old.Group(g.Name)
		}

		for _, t := range g.Tasks {
			t.Annotations = taskAnnotations(t, g, before, now.Group(g.Name))
		}
	}
}

// updatesOf returns the counts that are not zero, by their names.
func updatesOf(u *structs.DesiredUpdates) map[string]uint64 {
	updates := map[string]uint64{}
	for name, n := range map[string]uint64{
		structs.UpdateIgnore:      u.Ignore,
		structs.UpdateCreate:      u.Place,
		structs.UpdateMigrate:     u.Migrate,
		structs.UpdateDestroy:     u.Stop,
		structs.UpdateInPlace:     u.InPlaceUpdate,
		structs.UpdateDestructive: u.DestructiveUpdate,
		structs.UpdateCanary:      u.Canary,
		structs.UpdatePreemptions: u.Preemptions,
	} {
		if n > 0 {
			updates[name] = n
		}
	}

	return updates
}

// annotateCount marks a changed count as more or fewer allocations.
func annotateCount(g *structs.TaskGroupDiff) {
	for _, f := range g.Fields {
		if f.Name != "Count" || f.Type == structs.DiffNone {
			continue
		}

		switch {
		case f.Type == structs.DiffAdded, len(f.Old) < len(f.New),
			len(f.Old) == len(f.New) && f.Old < f.New: // they are numbers without leading zeros
			f.Annotations = append(f.Annotations, forcesCreate)
		default:
			f.Annotations = append(f.Annotations, forcesDestroy)
		}
	}
}

// taskAnnotations returns the effect of the difference of a task on allocations that run it.
func taskAnnotations(
	t *structs.TaskDiff, g *structs.TaskGroupDiff, old, now *structs.TaskGroup,
) []string {
	switch {
	case t.Type == structs.DiffNone:
		return nil
	case g.Type == structs.DiffAdded:
		return []string{forcesCreate}
	case g.Type == structs.DiffDeleted:
		return []string{forcesDestroy}
	case t.Type == structs.DiffEdited &&
		sameTask(old.Task(t.Name), now.Task(t.Name)):
		// The scheduler decides by the same comparison, so the annotation is what the plan will do.
		return []string{forcesInPlace}
	}

	return []string{forcesDestructive}
}

// sameTask reports whether a running task may continue as another version of it.
func sameTask(old, now *structs.Task) bool {
	job := &structs.Job{}
	groupOf := func(t *structs.Task) *structs.TaskGroup {
		return &structs.TaskGroup{Tasks: []*structs.Task{t}}
	}
	return sameRunSpec(job, groupOf(old), job, groupOf(now))
}
