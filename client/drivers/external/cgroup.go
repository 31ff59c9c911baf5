package external

import (
	"context"
	"fmt"
	"strings"

	"berth/client/drivers/cgroups"
	"berth/client/drivers/driver"
)

// shareSlice has the cgroups of tasks that have no cores of their own. Drivers of the dialect find a
// cgroup by the path that they get, and some check its name.
const shareSlice = "nomad.slice/share.slice"

// groupOf returns the cgroup of a task, which need not exist. It is empty on a machine with cgroup v1:
// there a driver makes its own.
func (d *Driver) groupOf(id string) *cgroups.Group {
	if !d.machine.IsUnified() {
		return &cgroups.Group{}
	}
	return d.machine.Path(shareSlice, scopeOf(id))
}

// scopeOf is the name of the cgroup of a task.
// A slash in a name would make two groups, one in the other.
func scopeOf(id string) string { return strings.ReplaceAll(id, "/", ".") + ".scope" }

// makeGroup makes the cgroup of a task with its limits. The driver starts the task in it.
func (d *Driver) makeGroup(cfg *driver.TaskConfig) error {
	if !d.machine.IsUnified() {
		return nil
	}

	// A driver may set these for a task itself. The agent needs neither.
	err := d.machine.HandDown(shareSlice, "cpuset", "io")
	if err != nil {
		d.logger.Debug("failed to hand controllers down to the cgroups of tasks", "error", err)
	}

	r := cfg.Resources
	// A process beyond the highest limit is killed. Below it, the task keeps what it asked for at least, also
	// when the machine runs short.
	limits := cgroups.Limits{CPUShares: r.CPU, MemoryBytes: memoryLimit(cfg)}
	if r.MemoryMaxMB > r.MemoryMB {
		limits.MemoryReserve = int64(r.MemoryMB) << 20
	}

	// The agent makes the group before the start, because the guard has to know it before the first process
	// of the task (ADR 62).
	_, err = d.machine.New(shareSlice, scopeOf(cfg.ID), limits)
	if err != nil {
		return fmt.Errorf("making the cgroup of task %q: %w", cfg.ID, err)
	}

	return nil
}

// removeGroup kills what is left in the cgroup of a task, and removes it. It is idempotent.
func (d *Driver) removeGroup(ctx context.Context, id string) error {
	group := d.groupOf(id)
	if group.Empty() {
		return nil
	}

	// The kernel may hold a killed process in a system call for any time.
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := group.Kill(ctx)
	if err == nil {
		err = group.Remove()
	}
	if err != nil {
		return fmt.Errorf("removing the cgroup of task %q: %w", id, err)
	}
	return nil
}
