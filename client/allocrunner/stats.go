package allocrunner

import (
	"context"
	"fmt"
	"sync"

	"berth/client/allocrunner/taskrunner"
	"berth/client/drivers/driver"
	"berth/structs"
	"berth/structs/nodecalls"
)

// DeviceStats finds the statistics of devices. The node agent implements it: a runner knows the devices of
// its tasks, and keeps no statistics of the machine.
type DeviceStats interface {
	// DeviceStats returns the last statistics of devices, by group. The maps are the caller's.
	DeviceStats(devices []*structs.AllocatedDeviceResource) []*nodecalls.DeviceGroupStats
}

// Read reads the counters of the tasks that run, once. A task whose driver does not answer is left out.
func Read(ctx context.Context, r *Runner) map[string]*driver.Stats {
	tasks := r.record.taskList()
	read := make([]*driver.Stats, len(tasks))
	var all sync.WaitGroup
	for i, t := range tasks {
		all.Go(func() { read[i], _ = taskrunner.Read(ctx, t) })
	}
	all.Wait()
	found := map[string]*driver.Stats{}
	for i, t := range tasks {
		if read[i] != nil {
			found[t.Name] = read[i]
		}
	}
	return found
}

// Stats measures the tasks that run, or one of them if only is not "". It reads when it is called, and takes
// taskrunner.StatsWindow, or up to twice StatsTimeout more for a driver that does not answer: such a task is
// among Unmeasured, with the reason. The error is invalid if the allocation has no task of that name, and a
// failed precondition if that task does not run.
func (r *Runner) Stats(
	ctx context.Context, only string, devices DeviceStats,
) (*nodecalls.AllocResourceUsage, error) {
	tasks, err := r.record.taskList().choose(r.id, only)
	if err != nil {
		return nil, err
	}

	measured := make([]taskrunner.Measurement, len(tasks))
	var all sync.WaitGroup
	for i, t := range tasks {
		all.Go(func() { measured[i] = t.Measure(ctx) }) // a driver that hangs delays no other task
	}

	all.Wait()
	if ctx.Err() != nil {
		return nil, structs.Timeoutf("measuring allocation %s: %w", r.id, ctx.Err())
	}

	held := r.Alloc().Devices
	answer := nodecalls.NewAllocResourceUsage()
	for i, t := range tasks {
		m := measured[i]
		switch {
		case m.Err == nil && m.Runs:
			m.Usage.ResourceUsage.DeviceStats = devices.DeviceStats(held[t.Name])
			answer.AddTask(t.Name, m.Usage)
		case m.Err == nil && only != "":
			return nil, structs.Preconditionf("task %q of allocation %s is %s; only a running task is measured",
				t.Name, r.id, t.State().State)
		case m.Err != nil && only != "":
			return nil, fmt.Errorf("measuring task %q of allocation %s: %w", t.Name, r.id, m.Err)
		case m.Err != nil:
			answer.Unmeasured[t.Name] = m.Err.Error()
		}
	}

	return answer, nil
}
