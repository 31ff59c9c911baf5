package external

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"berth/client/drivers/driver"
	protocol "berth/client/drivers/protocol/driver"
	"berth/structs"
)

// remedy is the way out for a task that no guard can end.
const remedy = `use the driver exec, raw_exec or docker, or on_node_loss = "hold" or "fence"`

// Guardable returns why the cgroups of tasks are not known before their start, as a precondition. Plugins of
// the dialect get a cgroup for each task on machines with cgroup v2 alone.
func (d *Driver) Guardable() error {
	if d.machine.IsUnified() {
		return nil
	}
	return structs.Preconditionf("on this machine, which has cgroup v1, it makes the cgroup of a task "+
		"itself, so no guard finds the processes of the task: %s", remedy)
}

// orderGuard tells the guard the cgroup of a task. Without OrderGuard, nothing of the task has to end with
// the lease.
func orderGuard(d *Driver, cfg *driver.TaskConfig) error {
	if cfg.OrderGuard == nil {
		return nil
	}
	err := d.Guardable()
	if err != nil {
		return err
	}
	return cfg.OrderGuard(d.groupOf(cfg.ID))
}

// checkPlace rejects a guarded task whose process is not in the cgroup that the guard knows. Some plugins
// make others.
func (d *Driver) checkPlace(
	ctx context.Context, service protocol.DriverClient, cfg *driver.TaskConfig,
) error {
	if cfg.OrderGuard == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	answer, err := service.InspectTask(ctx, &protocol.InspectTaskRequest{TaskId: cfg.ID})
	if err != nil {
		return callError(err)
	}

	// The interface has no field for the process. Drivers name it in this attribute by convention.
	text := answer.GetDriver().GetAttributes()["pid"]
	pid, err := strconv.Atoi(text)
	if err != nil || pid <= 1 {
		return structs.Preconditionf("the driver %q names no process of task %q (its attribute pid is %q), "+
			"so no guard can end the task: %s", d.name, cfg.ID, structs.Cut(text, structs.MaxQuoted), remedy)
	}

	// The group is read before the test for life, so that a process that ends in between does not look like
	// one outside of it.
	group := d.groupOf(cfg.ID)
	pids, err := group.PIDs()
	if err != nil || slices.Contains(pids, pid) {
		return err
	}
	if errors.Is(unix.Kill(pid, 0), unix.ESRCH) { // it has ended already
		return nil
	}
	return structs.Preconditionf("the driver %q runs process %d of task %q outside of the cgroup %s, so no "+
		"guard can end the task: %s", d.name, pid, cfg.ID, group.Name(), remedy)
}
