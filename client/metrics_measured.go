package client

import (
	"context"
	"maps"
	"sync"

	"berth/client/allocrunner"
	"berth/client/drivers/driver"
	"berth/client/machine"
	"berth/internal/telemetry"
	"berth/structs"
	"berth/structs/nodecalls"
)

// meter is the last reading of a task, and the sum of its use.
type meter struct {
	*driver.Stats
	ticks float64
}

// meters has the tasks that were read in the last interval, by allocation and name.
type meters map[[2]string]meter

// reading has the counters of the tasks of one allocation.
type reading struct {
	alloc *structs.Allocation
	tasks map[string]*driver.Stats
}

// measureTasks reads the counters of all tasks once.
func (p *metricsPublisher) measureTasks(ctx context.Context, yield func(telemetry.Gauge)) {
	now := meters{}
	core := coreMHz(p.Node.Node())
	for _, r := range p.readAll(ctx) {
		group := r.alloc.Job.Group(r.alloc.TaskGroup)
		if group == nil {
			continue
		}
		for _, task := range group.Tasks {
			stats := r.tasks[task.Name]
			if stats == nil {
				continue
			}
			key := [2]string{r.alloc.ID, task.Name}
			m := usage{of: taskLabels(r.alloc, task.Name), yield: yield}
			m.reserved(task.Resources)
			m.memory(stats)
			last := p.tasks[key]
			now[key] = meter{stats, last.ticks + m.processors(last, stats, core)}
		}
	}
	p.tasks = now
}

// readAll reads the tasks of all allocations. One that has left the node meanwhile is left out.
func (p *metricsPublisher) readAll(ctx context.Context) []reading {
	states := p.Node.Allocs()
	var mu sync.Mutex
	var found []reading
	var all sync.WaitGroup
	slots := make(chan struct{}, mostReads)
	for id, state := range states {
		r, err := p.Node.Find(id)
		if err != nil || state.ClientStatus != structs.AllocRunning && state.ClientStatus != structs.AllocPending {
			continue
		}
		slots <- struct{}{} // a reading ends with ctx, so this waits no longer
		all.Go(func() {
			defer func() { <-slots }()
			tasks := readStats(ctx, r)
			mu.Lock()
			defer mu.Unlock()
			found = append(found, reading{r.Alloc(), tasks})
		})
	}
	all.Wait()
	return found
}

// readStats reads the tasks of one allocation, unless the interval is over.
func readStats(ctx context.Context, r *allocrunner.Runner) map[string]*driver.Stats {
	if ctx.Err() != nil || r.Alloc().Job == nil {
		return nil
	}
	return allocrunner.Read(ctx, r)
}

// usage yields the gauges of one task.
type usage struct {
	of    map[string]string
	yield func(telemetry.Gauge)
}

func (u usage) gauge(name, help string, value float64) {
	u.yield(telemetry.Gauge{Name: "nomad.client.allocs." + name, Help: help, Labels: u.of, Value: value})
}

const mib = 1 << 20

// reserved yields what the job asks for.
func (u usage) reserved(r *structs.Resources) {
	if r == nil {
		return
	}
	u.gauge("cpu.allocated", "MHz that a task reserves", float64(r.CPU))
	u.gauge("memory.allocated", "Bytes of memory that a task reserves", float64(r.MemoryMB)*mib)
	if r.MemoryMaxMB > 0 {
		u.gauge("memory.max_allocated", "Bytes of memory that a task may use while the node has them",
			float64(r.MemoryMaxMB)*mib)
	}
}

// memory yields the use of memory. A driver that does not measure a value leaves it 0.
func (u usage) memory(s *driver.Stats) {
	u.gauge("memory.usage", "Bytes of memory that a task uses, with the page cache", float64(s.MemoryUsage))
	u.gauge("memory.rss", "Bytes of memory of a task without files", float64(s.MemoryRSS))
	u.gauge("memory.cache", "Bytes of the page cache of a task", float64(s.MemoryCache))
	u.gauge("memory.swap", "Bytes of a task on swap", float64(s.MemorySwap))
	u.gauge("memory.max_usage", "The most bytes of memory that a task has used", float64(s.MemoryMax))
}

// processors yields the use of processors since the last reading, if there is one of the same process, and
// returns it in MHz.
func (u usage) processors(last meter, now *driver.Stats, core float64) (ticks float64) {
	u.gauge("cpu.throttled_periods", "Periods in which a task waited for processors",
		float64(now.ThrottledPeriods))
	u.gauge("cpu.throttled_time", "Nanoseconds for which a task waited for processors",
		float64(now.ThrottledTime))
	percent, known := usedPercent(last.Stats, now)
	if !known {
		return 0
	}
	ticks = percent / 100 * core
	u.gauge("cpu.total_percent", "Use of processors by a task, 100 for one of them", percent)
	u.gauge("cpu.total_ticks", "Use of processors by a task in MHz", ticks)
	u.yield(telemetry.Gauge{
		Name: "nomad.client.allocs.cpu.total_ticks_count", Help: "Sum of cpu.total_ticks over all intervals",
		Labels: u.of, Value: last.ticks + ticks, Counts: true,
	})
	if last.Stats != nil {
		took := now.CollectedAt - last.CollectedAt
		u.gauge("cpu.user", "The part of cpu.total_percent outside the kernel",
			share(last.CPUUser, now.CPUUser, took))
		u.gauge("cpu.system", "The part of cpu.total_percent in the kernel",
			share(last.CPUSystem, now.CPUSystem, took))
	}
	return ticks
}

// usedPercent returns the use of processors between two readings. A driver that measures it itself is
// believed.
func usedPercent(last, now *driver.Stats) (percent float64, known bool) {
	if now.Percent != nil {
		return *now.Percent, true
	}
	if last == nil || now.CollectedAt <= last.CollectedAt || now.CPUTotal < last.CPUTotal {
		return 0, false // the process is another one
	}
	return share(last.CPUTotal, now.CPUTotal, now.CollectedAt-last.CollectedAt), true
}

// share returns a part of the time in percent, 0 for counters that began again.
func share(before, after uint64, took int64) float64 {
	if took <= 0 || after < before {
		return 0
	}
	return 100 * float64(after-before) / float64(took)
}

// coreMHz returns the speed of one processor of the node, 0 if it is unknown.
func coreMHz(n *structs.Node) float64 {
	if n.NodeResources == nil || n.NodeResources.CPU.TotalCpuCores == 0 {
		return 0
	}
	return float64(n.NodeResources.CPU.CpuShares) / float64(n.NodeResources.CPU.TotalCpuCores)
}

// measureMachine yields the use of the machine since the last interval. The first one begins it.
func (p *metricsPublisher) measureMachine(ctx context.Context, yield func(telemetry.Gauge)) {
	node := p.Node.Node()
	if p.machine == nil {
		host := machine.Host{MHz: int64(coreMHz(node) * float64(node.NodeResources.CPU.TotalCpuCores))}
		m, err := machine.NewMeter(ctx, host)
		if err != nil {
			p.Logger.Warn("failed to measure the machine", "error", err)
			return
		}
		p.machine = m
	}
	s, err := p.machine.Measure(ctx)
	if err != nil {
		p.Logger.Warn("failed to measure the machine", "error", err)
		return
	}
	machineGauges(metricLabels(node), s, coreMHz(node), yield)
}

// machineGauges yields the gauges of a measurement.
func machineGauges(of map[string]string, s *nodecalls.HostStats, core float64, yield func(telemetry.Gauge)) {
	gauge := func(name, help string, value float64, extra ...string) {
		l := maps.Clone(of)
		if len(extra) > 0 {
			l[extra[0]] = extra[1]
		}
		yield(telemetry.Gauge{Name: "nomad.client." + name, Help: help, Labels: l, Value: value})
	}
	gauge("uptime", "Seconds since the start of the machine", float64(s.Uptime))
	gauge("host.memory.total", "Bytes of memory of the machine", float64(s.Memory.Total))
	gauge("host.memory.available", "Bytes of memory that processes can get", float64(s.Memory.Available))
	gauge("host.memory.used", "Bytes of memory in use", float64(s.Memory.Used))
	gauge("host.memory.free", "Bytes of memory without any use", float64(s.Memory.Free))
	for _, c := range s.CPU {
		gauge("host.cpu.total", "Use of a processor in percent", c.Total, "cpu", c.CPU)
		gauge("host.cpu.total_percent", "Use of a processor in percent", c.Total, "cpu", c.CPU)
		gauge("host.cpu.total_ticks", "Use of a processor in MHz", c.Total/100*core, "cpu", c.CPU)
		gauge("host.cpu.user", "Time of a processor outside the kernel in percent", c.User, "cpu", c.CPU)
		gauge("host.cpu.system", "Time of a processor in the kernel in percent", c.System, "cpu", c.CPU)
		gauge("host.cpu.idle", "Unused time of a processor in percent", c.Idle, "cpu", c.CPU)
	}
	for _, d := range s.DiskStats {
		gauge("host.disk.size", "Bytes of a file system", float64(d.Size), "disk", d.Device)
		gauge("host.disk.used", "Used bytes of a file system", float64(d.Used), "disk", d.Device)
		gauge("host.disk.available", "Free bytes of a file system", float64(d.Available), "disk", d.Device)
		gauge("host.disk.used_percent", "Used part of a file system in percent", d.UsedPercent, "disk", d.Device)
		gauge("host.disk.inodes_percent", "Used part of its inodes in percent", d.InodesUsedPercent,
			"disk", d.Device)
	}
}
