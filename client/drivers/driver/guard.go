package driver

import (
	"berth/client/drivers/cgroups"
	"berth/structs"
)

// Grouped is a driver that knows the cgroup of a task as soon as it has the task. All processes of the task
// are in it.
type Grouped interface {
	// TaskGroup reports false if tasks have no cgroup on this machine.
	TaskGroup(taskID string) (*cgroups.Group, bool)
}

// Announcing is a driver that knows the cgroup of a task only at its start: it calls TaskConfig.OrderGuard.
type Announcing interface {
	// Guardable returns why the driver cannot know the cgroups of its tasks on this machine: a precondition,
	// or unavailable while that is not known yet.
	Guardable() error
}

// Guardable returns why a guard does not find all processes of a task by a cgroup, as Announcing does. The
// group is the task's, nil if it becomes known at its start.
func Guardable(d Driver, taskID string) (*cgroups.Group, error) {
	if d, ok := d.(Announcing); ok {
		return nil, d.Guardable()
	}
	if d, ok := d.(Grouped); ok {
		group, known := d.TaskGroup(taskID)
		if known {
			return group, nil
		}
	}
	return nil, structs.Preconditionf("this node does not find all processes of its tasks by a cgroup: " +
		"use the driver exec, raw_exec or docker on a machine with cgroups")
}
