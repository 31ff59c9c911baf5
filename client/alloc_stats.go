package client

import (
	"context"
	"sync"
	"time"

	"berth/client/driver"
	"berth/internal/backoff"
	"berth/structs"
)

// statsWindow is the time between the two readings of a task's processor time.
const statsWindow = 250 * time.Millisecond

// AllocStats measures the running tasks of an allocation on this node, or one of them if task is not "". It
// reads when it is called: nobody measures tasks that nobody asks for. The error is not-found if the
// allocation is not here, or does not run the task.
func (c *Client) AllocStats(ctx context.Context, allocID, task string) (*structs.AllocResourceUsage, error) {
	r := c.runner(allocID)
	if r == nil {
		return nil, structs.NotFoundf("allocation %s is not on this node", allocID)
	}
	alloc := r.Alloc()
	var tasks []*structs.Task
	for _, t := range alloc.Job.Group(alloc.TaskGroup).Tasks {
		if task == "" || t.Name == task {
			tasks = append(tasks, t)
		}
	}
	before := c.readTasks(ctx, alloc.ID, tasks)
	if !backoff.Sleep(ctx, statsWindow) {
		return nil, structs.Timeoutf("measuring allocation %s: %w", allocID, ctx.Err())
	}
	after := c.readTasks(ctx, alloc.ID, tasks)
	usage := &structs.AllocResourceUsage{
		ResourceUsage: structs.NewResourceUsage(),
		Tasks:         map[string]*structs.TaskResourceUsage{},
	}
	for name, now := range after {
		was := before[name]
		if was == nil {
			continue // it has just started
		}
		t := c.taskUsage(was, now)
		t.ResourceUsage.DeviceStats = c.subsystems.deviceStats(alloc.Devices[name])
		usage.Tasks[name] = t
		usage.ResourceUsage.Add(t.ResourceUsage)
		usage.Timestamp = max(usage.Timestamp, t.Timestamp)
	}
	if task != "" && usage.Tasks[task] == nil {
		return nil, structs.NotFoundf("allocation %s does not run a task %q now", allocID, task)
	}
	return usage, nil
}

// deviceStats returns the last statistics of devices.
func (s *Subsystems) deviceStats(devices []*structs.AllocatedDeviceResource) []*structs.DeviceGroupStats {
	if s.Devices == nil || len(devices) == 0 {
		return nil
	}
	return s.Devices.StatsOf(devices)
}

// readTasks reads the counters of tasks, all at once: a driver that hangs delays no other. A task without
// counters is left out.
func (c *Client) readTasks(
	ctx context.Context, allocID string, tasks []*structs.Task,
) map[string]*driver.Stats {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var mu sync.Mutex
	var all sync.WaitGroup
	found := map[string]*driver.Stats{}
	for _, t := range tasks {
		all.Go(func() {
			d, err := c.subsystems.Drivers.Driver(t.Driver)
			if err != nil {
				return
			}
			stats, err := d.Stats(ctx, allocID+"/"+t.Name)
			if err != nil {
				c.logger.Debug("failed to measure a task", "alloc_id", allocID, "task", t.Name, "error", err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			found[t.Name] = stats
		})
	}
	all.Wait()
	return found
}

// taskUsage compares two readings of a task.
func (c *Client) taskUsage(was, now *driver.Stats) *structs.TaskResourceUsage {
	u := structs.NewResourceUsage()
	u.MemoryStats.RSS = now.MemoryRSS
	u.MemoryStats.MaxUsage = now.MemoryMax
	took := now.CollectedAt - was.CollectedAt
	if took > 0 && now.CPUTotal >= was.CPUTotal {
		share := float64(now.CPUTotal-was.CPUTotal) / float64(took)
		cpu := c.facts.Resources.CPU
		u.CpuStats.Percent = 100 * share
		u.CpuStats.TotalTicks = share * float64(cpu.CpuShares) / float64(max(cpu.TotalCpuCores, 1))
	}
	return &structs.TaskResourceUsage{
		ResourceUsage: u,
		Timestamp:     now.CollectedAt,
		Pids:          map[string]*structs.ResourceUsage{},
	}
}
