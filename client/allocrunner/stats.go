package allocrunner

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"berth/client/drivers/driver"
	"berth/internal/backoff"
	"berth/structs"
)

// statsWindow is the time between the two readings of a task. statsTimeout bounds one reading.
const (
	statsWindow  = 250 * time.Millisecond
	statsTimeout = 5 * time.Second
)

// DeviceStats finds the statistics of devices. The node agent implements it: a runner knows the devices of
// its tasks, and keeps no statistics of the machine.
type DeviceStats interface {
	// DeviceStats returns the last statistics of devices, by group. The maps are the caller's.
	DeviceStats(devices []*structs.AllocatedDeviceResource) []*structs.DeviceGroupStats
}

// Stats measures the tasks that run, or one of them if only is not "". It reads when it is called, and takes
// statsWindow, or up to twice statsTimeout more for a driver that does not answer: such a task is among
// Unmeasured, with the reason. The error is invalid if the allocation has no task of that name, and a failed
// precondition if that task does not run.
func (r *Runner) Stats(
	ctx context.Context, only string, devices DeviceStats,
) (*structs.AllocResourceUsage, error) {
	tasks, err := r.chooseTasks(only)
	if err != nil {
		return nil, err
	}

	measured := make([]measurement, len(tasks))
	var all sync.WaitGroup
	for i, t := range tasks {
		all.Go(func() { measured[i] = t.measure(ctx) }) // a driver that hangs delays no other task
	}

	all.Wait()
	if ctx.Err() != nil {
		return nil, structs.Timeoutf("measuring allocation %s: %w", r.id, ctx.Err())
	}

	held := r.Alloc().Devices
	answer := structs.NewAllocResourceUsage()
	for i, t := range tasks {
		m := measured[i]
		switch {
		case m.err == nil && m.runs:
			m.usage.ResourceUsage.DeviceStats = devices.DeviceStats(held[t.name])
			answer.AddTask(t.name, m.usage)
		case m.err == nil && only != "":
			return nil, structs.Preconditionf("task %q of allocation %s is %s; only a running task is measured",
				t.name, r.id, t.record.state().State)
		case m.err != nil && only != "":
			return nil, fmt.Errorf("measuring task %q of allocation %s: %w", t.name, r.id, m.err)
		case m.err != nil:
			answer.Unmeasured[t.name] = m.err.Error()
		}
	}

	return answer, nil
}

// chooseTasks returns all tasks, or the one with the name.
func (r *Runner) chooseTasks(only string) ([]*task, error) {
	tasks := r.taskList()
	if only == "" {
		return tasks, nil
	}
	var names []string
	for _, t := range tasks {
		if t.name == only {
			return []*task{t}, nil
		}
		names = append(names, t.name)
	}
	return nil, structs.Invalidf("allocation %s has no task %q; expected one of: %s", r.id,
		structs.Cut(only, structs.MaxQuoted), strings.Join(names, ", "))
}

// measurement is the result of measuring one task.
type measurement struct {
	runs  bool // without it there is neither a usage nor an error
	usage *structs.TaskResourceUsage
	err   error
}

// measure compares two readings of a running task.
func (t *task) measure(ctx context.Context) measurement {
	usage, err := t.readTwice(ctx)
	if t.record.state().State != structs.TaskRunning {
		return measurement{} // also if it has ended meanwhile
	}
	return measurement{runs: true, usage: usage, err: err}
}

func (t *task) readTwice(ctx context.Context) (*structs.TaskResourceUsage, error) {
	rec := t.record.get()
	if !rec.runs() {
		return nil, nil
	}

	d, err := t.shared.Drivers.Driver(rec.Handle.Driver)
	if err != nil {
		return nil, err
	}

	before, err := t.readStats(ctx, d)
	if err != nil {
		return nil, err
	}

	if !backoff.Sleep(ctx, statsWindow) {
		return nil, ctx.Err()
	}

	after, err := t.readStats(ctx, d)
	if err != nil {
		return nil, err
	}

	return t.usageBetween(before, after), nil
}

// readStats bounds one call of the driver.
func (t *task) readStats(ctx context.Context, d driver.Driver) (*driver.Stats, error) {
	limited, cancel := context.WithTimeout(ctx, statsTimeout)
	defer cancel()
	s, err := d.Stats(limited, t.id)
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		return nil, structs.Timeoutf("driver %s did not answer within %s", d.Name(), statsTimeout)
	}
	return s, err
}

// usageBetween returns the use of memory now, and that of processors between two readings. A driver that
// measures processors itself is believed.
func (t *task) usageBetween(before, after *driver.Stats) *structs.TaskResourceUsage {
	u := structs.NewResourceUsage()
	u.MemoryStats.SetValues(after.MemoryRSS, after.MemoryUsage, after.MemoryMax)
	took := after.CollectedAt - before.CollectedAt
	switch {
	case after.Percent != nil:
		u.CpuStats.SetPercent(*after.Percent, t.coreMHz())
	case took > 0 && after.CPUTotal >= before.CPUTotal:
		share := float64(after.CPUTotal-before.CPUTotal) / float64(took)
		u.CpuStats.SetPercent(100*share, t.coreMHz())
	}
	return &structs.TaskResourceUsage{
		ResourceUsage: u,
		Timestamp:     after.CollectedAt,
		Pids:          map[string]*structs.ResourceUsage{},
	}
}

// coreMHz returns the speed of one processor of the node, 0 if it is unknown.
func (t *task) coreMHz() float64 {
	resources := t.shared.Node().NodeResources
	if resources == nil || resources.CPU.TotalCpuCores == 0 {
		return 0
	}
	return float64(resources.CPU.CpuShares) / float64(resources.CPU.TotalCpuCores)
}
