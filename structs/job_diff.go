package structs

import (
	"cmp"
	"slices"
)

// The types of a difference.
const (
	DiffNone    = "None"
	DiffAdded   = "Added"
	DiffDeleted = "Deleted"
	DiffEdited  = "Edited"
)

// JobDiff has the differences between two versions of a job, in the shape of the dialect.
type JobDiff struct {
	Type       string
	ID         string
	Fields     []*FieldDiff
	Objects    []*ObjectDiff
	TaskGroups []*TaskGroupDiff
}

// TaskGroupDiff has the differences of a task group. Updates counts its allocations by the effect of the new
// version on them, under the names that start with Update.
type TaskGroupDiff struct {
	Type    string
	Name    string
	Fields  []*FieldDiff
	Objects []*ObjectDiff
	Tasks   []*TaskDiff
	Updates map[string]uint64
}

// TaskDiff has the differences of a task. Annotations has their effect on the allocations.
type TaskDiff struct {
	Type        string
	Name        string
	Fields      []*FieldDiff
	Objects     []*ObjectDiff
	Annotations []string
}

// ObjectDiff has the differences of a block or a list.
type ObjectDiff struct {
	Type    string
	Name    string
	Fields  []*FieldDiff
	Objects []*ObjectDiff
}

// FieldDiff is the difference of one value. Old and New are its texts, "" if there is none. Those of a
// duration are nanoseconds, and Annotations then has its readable form.
type FieldDiff struct {
	Type        string
	Name        string
	Old, New    string
	Annotations []string
}

// DiffJobs compares two versions of a job field by field. Either may be nil. The fields that the servers own
// do not count. If context is set, the result also has the equal groups and tasks, and the equal fields of
// each object that differs, also those that are zero in both, as the plan of the dialect.
func DiffJobs(old, now *Job, context bool) *JobDiff {
	d := differ{context: context}
	out := &JobDiff{}
	var groups, before []*TaskGroup
	if old != nil {
		out.ID = old.ID
		before = old.TaskGroups
	}
	if now != nil {
		out.ID = now.ID
		groups = now.TaskGroups
	}
	out.Fields, out.Objects = d.part(old, now)
	groupName := func(g *TaskGroup) string { return g.Name }
	for _, p := range pairUp(before, groups, groupName) {
		diff := d.group(p.old, p.now)
		if context || diff.Type != DiffNone {
			out.TaskGroups = append(out.TaskGroups, diff)
		}
	}
	changed := changedParts(out.Fields, out.Objects) ||
		slices.ContainsFunc(out.TaskGroups, func(g *TaskGroupDiff) bool {
			return g.Type != DiffNone
		})
	out.Type = diffType(old != nil, now != nil, changed)
	return out
}

func (d differ) group(old, now *TaskGroup) *TaskGroupDiff {
	out := &TaskGroupDiff{}
	var tasks, before []*Task
	if old != nil {
		out.Name = old.Name
		before = old.Tasks
	}
	if now != nil {
		out.Name = now.Name
		tasks = now.Tasks
	}
	out.Fields, out.Objects = d.part(old, now)
	taskName := func(t *Task) string { return t.Name }
	for _, p := range pairUp(before, tasks, taskName) {
		diff := d.task(p.old, p.now)
		if d.context || diff.Type != DiffNone {
			out.Tasks = append(out.Tasks, diff)
		}
	}
	changed := changedParts(out.Fields, out.Objects) ||
		slices.ContainsFunc(out.Tasks, func(t *TaskDiff) bool {
			return t.Type != DiffNone
		})
	out.Type = diffType(old != nil, now != nil, changed)
	return out
}

func (d differ) task(old, now *Task) *TaskDiff {
	out := &TaskDiff{Name: cmp.Or(now, old).Name}
	out.Fields, out.Objects = d.part(old, now)
	changed := changedParts(out.Fields, out.Objects)
	out.Type = diffType(old != nil, now != nil, changed)
	return out
}

// pair is a thing before and after a change. Either may be nil.
type pair[T any] struct{ old, now *T }

// pairUp pairs the things that have the same name: those of now in their order, then those that are gone.
func pairUp[T any](old, now []*T, name func(*T) string) (pairs []pair[T]) {
	gone := slices.Clone(old)
	for _, n := range now {
		p := pair[T]{now: n}
		at := slices.IndexFunc(gone, func(o *T) bool { return name(o) == name(n) })
		if at >= 0 {
			p.old = gone[at]
			gone = slices.Delete(gone, at, at+1)
		}
		pairs = append(pairs, p)
	}
	for _, o := range gone {
		pairs = append(pairs, pair[T]{old: o})
	}
	return pairs
}

func diffType(had, has, changed bool) string {
	switch {
	case !had && has:
		return DiffAdded
	case had && !has:
		return DiffDeleted
	case changed:
		return DiffEdited
	}
	return DiffNone
}

func changedParts(fields []*FieldDiff, objects []*ObjectDiff) bool {
	return slices.ContainsFunc(fields, func(f *FieldDiff) bool { return f.Type != DiffNone }) ||
		slices.ContainsFunc(objects, func(o *ObjectDiff) bool { return o.Type != DiffNone })
}
