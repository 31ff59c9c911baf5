package taskrunner

import (
	"context"
	"time"

	"berth/client/drivers/driver"
	"berth/internal/backoff"
	"berth/structs"
	"berth/structs/nodecalls"
)

// StatsWindow is the time between the two readings of a task. StatsTimeout bounds one reading.
const (
	StatsWindow  = 250 * time.Millisecond
	StatsTimeout = 5 * time.Second
)

// Measurement is the result of measuring one task.
type Measurement struct {
	Runs  bool // without it there is neither a usage nor an error
	Usage *nodecalls.TaskResourceUsage
	Err   error
}

// meter measures the process of a task.
type meter struct {
	id      string // the driver's: "<alloc id>/<task>"
	record  *recordKeeper
	drivers Drivers
	node    func() *structs.Node
}

// Measure compares two readings of the process, if the task runs. It takes StatsWindow, and up to twice
// StatsTimeout for a driver that does not answer.
func (t *Task) Measure(ctx context.Context) Measurement {
	m := meter{
		id:      t.id,
		record:  t.record,
		drivers: t.shared.Drivers,
		node:    t.shared.Node,
	}
	return m.measure(ctx)
}

// measure compares two readings of a running task.
func (m meter) measure(ctx context.Context) Measurement {
	usage, err := m.readTwice(ctx)
	if m.record.state().State != structs.TaskRunning {
		return Measurement{} // also if it has ended meanwhile
	}
	return Measurement{Runs: true, Usage: usage, Err: err}
}

// Read reads the counters of the process once. There are none, and no error, if the task does not run.
func Read(ctx context.Context, t *Task) (*driver.Stats, error) {
	rec := t.record.get()
	if !rec.runs() {
		return nil, nil
	}
	d, err := t.shared.Drivers.Driver(rec.Handle.Driver)
	if err != nil {
		return nil, err
	}
	return meter{id: t.id}.readStats(ctx, d)
}

func (m meter) readTwice(ctx context.Context) (*nodecalls.TaskResourceUsage, error) {
	rec := m.record.get()
	if !rec.runs() {
		return nil, nil
	}

	d, err := m.drivers.Driver(rec.Handle.Driver)
	if err != nil {
		return nil, err
	}

	before, err := m.readStats(ctx, d)
	if err != nil {
		return nil, err
	}

	if !backoff.Sleep(ctx, StatsWindow) {
		return nil, ctx.Err()
	}

	after, err := m.readStats(ctx, d)
	if err != nil {
		return nil, err
	}

	return m.usageBetween(before, after), nil
}

// readStats bounds one call of the driver.
func (m meter) readStats(ctx context.Context, d driver.Driver) (*driver.Stats, error) {
	limited, cancel := context.WithTimeout(ctx, StatsTimeout)
	defer cancel()
	s, err := d.Stats(limited, m.id)
	// The end of the caller's own context is no fault of the driver.
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		return nil, structs.Timeoutf("driver %s did not answer within %s", d.Name(), StatsTimeout)
	}
	return s, err
}

// usageBetween returns the use of memory now, and the use of processors between two readings. A driver that
// measures processors itself is believed.
func (m meter) usageBetween(before, after *driver.Stats) *nodecalls.TaskResourceUsage {
	u := nodecalls.NewResourceUsage()
	u.MemoryStats.SetValues(after.MemoryRSS, after.MemoryUsage, after.MemoryMax)
	took := after.CollectedAt - before.CollectedAt
	switch {
	case after.Percent != nil:
		u.CpuStats.SetPercent(*after.Percent, m.coreMHz())
	// The counters of a process that was started between the readings begin again.
	case took > 0 && after.CPUTotal >= before.CPUTotal:
		share := float64(after.CPUTotal-before.CPUTotal) / float64(took)
		u.CpuStats.SetPercent(100*share, m.coreMHz())
	}
	return &nodecalls.TaskResourceUsage{
		ResourceUsage: u,
		Timestamp:     after.CollectedAt,
		Pids:          map[string]*nodecalls.ResourceUsage{},
	}
}

// coreMHz returns the speed of one processor of the node, 0 if it is unknown.
func (m meter) coreMHz() float64 {
	resources := m.node().NodeResources
	if resources == nil || resources.CPU.TotalCpuCores == 0 {
		return 0
	}
	return float64(resources.CPU.CpuShares) / float64(resources.CPU.TotalCpuCores)
}
