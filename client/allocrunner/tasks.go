package allocrunner

import (
	"slices"
	"strings"

	"berth/client/allocrunner/lifecycle"
	"berth/client/allocrunner/taskrunner"
	"berth/structs"
)

// taskSet are tasks of an allocation, in the order of its group.
type taskSet []*taskrunner.Task

// members returns the tasks for decisions on their order.
func (all taskSet) members() []lifecycle.Member {
	members := make([]lifecycle.Member, 0, len(all))
	for _, t := range all {
		members = append(members, t.Member())
	}
	return members
}

// choose returns all tasks, or the one with the name.
func (all taskSet) choose(allocID, only string) (taskSet, error) {
	if only == "" {
		return all, nil
	}
	var names []string
	for _, t := range all {
		if t.Name == only {
			return taskSet{t}, nil
		}
		names = append(names, t.Name)
	}
	return nil, structs.Invalidf("allocation %s has no task %q; expected one of: %s", allocID,
		structs.Cut(only, structs.MaxQuoted), strings.Join(names, ", "))
}

// running returns the tasks that run, or the one with the name.
func (all taskSet) running(allocID, name string) (taskSet, error) {
	tasks, err := all.choose(allocID, name)
	if err != nil {
		return nil, err
	}
	running := slices.DeleteFunc(slices.Clone(tasks), func(t *taskrunner.Task) bool { return !t.Runs() })
	switch {
	case len(running) > 0:
		return running, nil
	case name != "":
		return nil, tasks[0].Control.NotRunning()
	}
	return nil, structs.Conflictf("allocation %s has no running task", allocID)
}

// forExec returns the task in which a command of a user is to run.
func (all taskSet) forExec(allocID, name string) (*taskrunner.Task, error) {
	if name != "" || len(all) == 1 {
		found, err := all.choose(allocID, name)
		if err != nil {
			return nil, err
		}
		return found[0], nil
	}

	at := slices.IndexFunc(all, func(t *taskrunner.Task) bool { return t.Spec().Leader })
	if at >= 0 {
		return all[at], nil
	}

	var names []string
	for _, t := range all {
		names = append(names, t.Name)
	}

	return nil, structs.Invalidf("allocation %s has %d tasks and no leader; name one of: %s",
		allocID, len(names), strings.Join(names, ", "))
}
