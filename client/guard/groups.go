package guard

import (
	"fmt"
	"os"

	"berth/client/drivers/cgroups"
	"berth/client/drivers/driver"
	"berth/client/guard/watch"
	"berth/structs"
)

// groupsOf returns the cgroups of the tasks of an allocation, as far as they are known before their start.
func (g *Guard) groupsOf(allocID string, group *structs.TaskGroup) ([]*cgroups.Group, error) {
	if os.Geteuid() != 0 {
		return nil, structs.Preconditionf("%w: the agent does not run as root", watch.ErrNoGuard)
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

	of, err := driver.Guardable(d, allocID+"/"+t.Name)
	if err != nil {
		return nil, fmt.Errorf("task %q runs in the driver %q: %w", t.Name, t.Driver, err)
	}
	return of, nil
}
