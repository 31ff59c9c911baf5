package guard

import (
	"fmt"
	"os"

	"berth/client/drivers/cgroups"
	"berth/structs"
)

// grouped is a driver that knows the cgroup of a task as soon as it has the task. All processes of the task
// are in it.
type grouped interface {
	TaskGroup(taskID string) (*cgroups.Group, bool)
}

// announcing is a driver that knows the cgroup of a task only at its start: it calls TaskConfig.OrderGuard.
type announcing interface {
	// Guardable returns why the driver cannot know the cgroups of its tasks on this machine: a precondition, or
	// unavailable while that is not known yet.
	Guardable() error
}

// groupsOf returns the cgroups of the tasks of an allocation, as far as they are known before their start.
func (g *Guard) groupsOf(allocID string, group *structs.TaskGroup) ([]*cgroups.Group, error) {
	if os.Geteuid() != 0 {
		return nil, structs.Preconditionf("the agent does not run as root, so it can guard no task")
	}
	var groups []*cgroups.Group
	for _, t := range group.Tasks {
		of, err := g.groupOf(allocID, t)
		if err != nil {
			return nil, err
		}
		if of != nil {
			groups = append(groups, of)
		}
	}
	return groups, nil
}

// groupOf returns the cgroup of a task, nil if it becomes known at its start.
func (g *Guard) groupOf(allocID string, t *structs.Task) (*cgroups.Group, error) {
	d, err := g.Drivers.Driver(t.Driver)
	if err != nil {
		return nil, err
	}
	if d, ok := d.(announcing); ok {
		err := d.Guardable()
		if err != nil {
			return nil, fmt.Errorf("task %q runs in the driver %q: %w", t.Name, t.Driver, err)
		}
		return nil, nil
	}

	if d, ok := d.(grouped); ok {
		of, known := d.TaskGroup(allocID + "/" + t.Name)
		if known {
			return of, nil
		}
	}
	return nil, structs.Preconditionf(
		"task %q runs in the driver %q, and this node does not find all its processes by a cgroup: "+
			"use the driver exec, raw_exec or docker on a machine with cgroups", t.Name, t.Driver)
}
