// Package jobdiff compares two versions of a job field by field, for the plan of a registration and for the
// history of a job. It reads the fields by reflection. The types of a difference are in package structs,
// because answers have them.
package jobdiff

import (
	"cmp"
	"slices"

	"berth/structs"
)

// Compare compares two versions of a job field by field. Either may be nil. The fields that the servers own
// do not count. If context is set, the result also has the equal groups and tasks, and the equal fields of
// each object that differs, also fields that are zero in both, as the plan of the dialect.
func Compare(old, now *structs.Job, context bool) *structs.JobDiff {
	d := differ{context: context}
	out := &structs.JobDiff{}
	var groups, before []*structs.TaskGroup
	if old != nil {
		out.ID = old.ID
		before = old.TaskGroups
	}

	if now != nil {
		out.ID = now.ID
		groups = now.TaskGroups
	}

	out.Fields, out.Objects = d.part(old, now)

	// A group that has another name is another group: its allocations are replaced.
	groupName := func(g *structs.TaskGroup) string { return g.Name }
	for _, p := range pairUp(before, groups, groupName) {
		diff := d.group(p.old, p.now)
		if context || diff.Type != structs.DiffNone {
			out.TaskGroups = append(out.TaskGroups, diff)
		}
	}

	changed := changedParts(out.Fields, out.Objects) ||
		slices.ContainsFunc(out.TaskGroups, func(g *structs.TaskGroupDiff) bool {
			return g.Type != structs.DiffNone
		})
	out.Type = diffType(old != nil, now != nil, changed)
	return out
}

// group compares two versions of a group, as Compare does for a job.
func (d differ) group(old, now *structs.TaskGroup) *structs.TaskGroupDiff {
	out := &structs.TaskGroupDiff{}
	var tasks, before []*structs.Task
	if old != nil {
		out.Name = old.Name
		before = old.Tasks
	}

	if now != nil {
		out.Name = now.Name
		tasks = now.Tasks
	}

	out.Fields, out.Objects = d.part(old, now)
	taskName := func(t *structs.Task) string { return t.Name }
	for _, p := range pairUp(before, tasks, taskName) {
		diff := d.task(p.old, p.now)
		if d.context || diff.Type != structs.DiffNone {
			out.Tasks = append(out.Tasks, diff)
		}
	}

	changed := changedParts(out.Fields, out.Objects) ||
		slices.ContainsFunc(out.Tasks, func(t *structs.TaskDiff) bool {
			return t.Type != structs.DiffNone
		})
	out.Type = diffType(old != nil, now != nil, changed)
	return out
}

// task compares two versions of a task. A version that does not have the task is nil.
func (d differ) task(old, now *structs.Task) *structs.TaskDiff {
	out := &structs.TaskDiff{Name: cmp.Or(now, old).Name}
	out.Fields, out.Objects = d.part(old, now)
	changed := changedParts(out.Fields, out.Objects)
	out.Type = diffType(old != nil, now != nil, changed)
	return out
}

// pair is a thing before and after a change. Either may be nil.
type pair[T any] struct{ old, now *T }

// pairUp pairs the things that have the same name: the things of now in their order, then the gone ones.
func pairUp[T any](old, now []*T, name func(*T) string) (pairs []pair[T]) {
	gone := slices.Clone(old)
	for _, n := range now {
		p := pair[T]{now: n}
		at := slices.IndexFunc(gone, func(o *T) bool { return name(o) == name(n) })
		if at >= 0 {
			p.old = gone[at]

			// Each thing has one partner, also if several have the same name.
			gone = slices.Delete(gone, at, at+1)
		}

		pairs = append(pairs, p)
	}

	for _, o := range gone {
		pairs = append(pairs, pair[T]{old: o})
	}

	return pairs
}

// diffType returns the kind of a difference between things of which each may be missing.
func diffType(had, has, changed bool) string {
	switch {
	case !had && has:
		return structs.DiffAdded
	case had && !has:
		return structs.DiffDeleted
	case changed:
		return structs.DiffEdited
	}
	return structs.DiffNone
}

// changedParts reports whether a part differs. With context, the equal parts are in the lists, too.
func changedParts(fields []*structs.FieldDiff, objects []*structs.ObjectDiff) bool {
	return slices.ContainsFunc(fields,
		func(f *structs.FieldDiff) bool { return f.Type != structs.DiffNone }) ||
		slices.ContainsFunc(objects, func(o *structs.ObjectDiff) bool { return o.Type != structs.DiffNone })
}
