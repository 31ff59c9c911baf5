// Package jobaction finds the actions of jobs: the commands that users run in tasks by their names. It is
// apart: the API, the command line and the node look for actions, and no row needs it.
package jobaction

import (
	"slices"
	"strings"

	"berth/structs"
)

// JobAction is an action with its place in a job. The keys are the dialect's.
type JobAction struct {
	Name          string
	Command       string
	Args          []string
	TaskName      string
	TaskGroupName string
}

// Target names the allocation, and the task in it, in which a command of a user is to run.
type Target struct {
	AllocID string
	Task    string // "": see Find, or for another command the only task or the leader
	Action  string // "": the user names the command itself
	// An action may be one of a job and a group, "" for any: then the allocation has to be of these.
	Namespace, JobID, Group string
}

// List returns the actions of a job in the order of its file, at least an empty list.
func List(job *structs.Job) []*JobAction {
	all := []*JobAction{}
	for _, g := range job.TaskGroups {
		for _, t := range g.Tasks {
			for _, a := range t.Actions {
				all = append(all, &JobAction{
					Name:          a.Name,
					Command:       a.Command,
					Args:          a.Args,
					TaskName:      t.Name,
					TaskGroupName: g.Name,
				})
			}
		}
	}
	return all
}

// named returns the actions of a list with the name, the group and the task of a target, "" for any.
func named(all []*JobAction, at Target) []*JobAction {
	return slices.DeleteFunc(slices.Clone(all), func(a *JobAction) bool {
		return a.Name != at.Action ||
			at.Group != "" && a.TaskGroupName != at.Group ||
			at.Task != "" && a.TaskName != at.Task
	})
}

// Find returns the action of a target in its allocation. Without the name of a task it has to be in one task
// alone. The error is invalid if the allocation has no such action, or several tasks with it.
func Find(alloc *structs.Allocation, at Target) (*JobAction, error) {
	if at.JobID != "" && (alloc.JobID != at.JobID ||
		structs.NamespaceOr(alloc.Namespace) != structs.NamespaceOr(at.Namespace)) {
		return nil, structs.Invalidf("allocation %s is not of job %q in namespace %q", alloc.ID, at.JobID,
			structs.NamespaceOr(at.Namespace))
	}
	if at.Group != "" && at.Group != alloc.TaskGroup {
		return nil, structs.Invalidf("allocation %s is of group %q, not of %q",
			alloc.ID, alloc.TaskGroup, at.Group)
	}

	// The allocation may have another version of the job than the servers.
	all := slices.DeleteFunc(List(alloc.Job), func(a *JobAction) bool {
		return a.TaskGroupName != alloc.TaskGroup
	})
	found := named(all, at)
	switch len(found) {
	case 0:
		return nil, noAction(at, "allocation "+alloc.ID, all)
	case 1:
		return found[0], nil
	}
	return nil, ambiguous(at, found)
}

// noAction is the error of an action that does not exist. in is the job or the allocation.
func noAction(at Target, in string, all []*JobAction) error {
	wanted := structs.Cut(at.Action, structs.MaxQuoted)
	if at.Task != "" {
		in = "task " + structs.Cut(at.Task, structs.MaxQuoted) + " of " + in
	}
	if len(all) == 0 {
		return structs.Invalidf("%s has no action %q: it has no actions; add a block action to a task",
			in, wanted)
	}
	var names []string
	for _, a := range all {
		names = append(names, a.TaskName+"/"+a.Name)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	shown := strings.Join(names[:min(len(names), structs.MaxFaults)], ", ")
	return structs.Invalidf("%s has no action %q; its actions are, each after its task: %s", in, wanted, shown)
}

// ambiguous is the error of an action that several tasks have.
func ambiguous(at Target, found []*JobAction) error {
	var places []string
	for _, a := range found[:min(len(found), structs.MaxFaults)] {
		places = append(places, a.TaskGroupName+"/"+a.TaskName)
	}
	return structs.Invalidf("several tasks have an action %q; name the group and the task of one: %s",
		at.Action, strings.Join(places, ", "))
}

// Pick returns the place of a target without an allocation: a running allocation of the job whose task runs,
// and that task. It prefers allocations with the version of the job, then later ones.
func Pick(job *structs.Job, allocs []*structs.AllocListStub, at Target) (Target, error) {
	all := List(job)
	found := named(all, at)
	switch {
	case len(found) == 0:
		return at, noAction(at, "job "+job.ID, all)
	case len(found) > 1:
		return at, ambiguous(at, found)
	}

	at.Group = found[0].TaskGroupName
	at.Task = found[0].TaskName
	var best *structs.AllocListStub
	for _, a := range allocs {
		if runs(a, at) && (best == nil || isBetter(a, best, job.Version)) {
			best = a
		}
	}
	if best == nil {
		look := structs.CommandLine(job.Namespace, "job allocs", job.ID)
		return at, structs.Conflictf("no task %q of a group %q of job %q runs now: "+
			"an action needs a running task; see: %s", at.Task, at.Group, job.ID, look)
	}
	at.AllocID = best.ID
	return at, nil
}

// runs reports whether the task of a target runs in an allocation.
func runs(a *structs.AllocListStub, at Target) bool {
	state := a.TaskStates[at.Task]
	return a.TaskGroup == at.Group && a.ClientStatus == structs.AllocRunning &&
		state != nil && state.State == structs.TaskRunning
}

// isBetter reports whether the first of two allocations is to be picked. version is the job's.
func isBetter(a, b *structs.AllocListStub, version uint64) bool {
	current := a.JobVersion == version
	if current != (b.JobVersion == version) {
		return current
	}
	return a.CreateIndex > b.CreateIndex || a.CreateIndex == b.CreateIndex && a.ID < b.ID
}
