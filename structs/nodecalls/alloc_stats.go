package nodecalls

import (
	"maps"
	"slices"
)

// AllocResourceUsage is the resource use of an allocation on its node at one moment, in the dialect's shape.
// The sums are over the tasks in Tasks. A device group that two tasks use has one entry with the devices of
// both.
type AllocResourceUsage struct {
	ResourceUsage *ResourceUsage
	Tasks         map[string]*TaskResourceUsage // of the running tasks
	Timestamp     int64                         // UnixNano of the newest measurement, 0 without one
	// Unmeasured has the reason for each task that runs and was not measured. The dialect does not have it.
	Unmeasured map[string]string `json:",omitempty"`
}

// TaskResourceUsage is the resource use of a task.
type TaskResourceUsage struct {
	ResourceUsage *ResourceUsage
	Timestamp     int64                     // UnixNano
	Pids          map[string]*ResourceUsage // always empty; the dialect has it
}

// ResourceUsage is the use of each kind of resource.
type ResourceUsage struct {
	MemoryStats *MemoryStats
	CpuStats    *CpuStats
	DeviceStats []*DeviceGroupStats
}

// MemoryStats is a use of memory in bytes. Measured names the fields that have a value, in the dialect's
// words.
type MemoryStats struct {
	RSS      uint64
	Usage    uint64 // with the page cache
	MaxUsage uint64
	Measured []string
}

// CpuStats is a use of processors. Measured names the fields that have a value, in the dialect's words.
type CpuStats struct {
	TotalTicks float64 // MHz
	Percent    float64 // of one processor
	Measured   []string
}

// NewResourceUsage returns a use of nothing, with nothing measured.
func NewResourceUsage() *ResourceUsage {
	return &ResourceUsage{
		MemoryStats: &MemoryStats{Measured: []string{}},
		CpuStats:    &CpuStats{Measured: []string{}},
	}
}

// NewAllocResourceUsage returns the use of no task.
func NewAllocResourceUsage() *AllocResourceUsage {
	return &AllocResourceUsage{
		ResourceUsage: NewResourceUsage(),
		Tasks:         map[string]*TaskResourceUsage{},
		Unmeasured:    map[string]string{},
	}
}

// SetValues sets the amounts. A task has memory, so 0 means that the driver does not measure it.
func (s *MemoryStats) SetValues(rss, usage, highest uint64) {
	s.RSS = rss
	s.Usage = usage
	s.MaxUsage = highest
	s.Measured = []string{}
	for _, m := range []struct {
		name  string
		value uint64
	}{{"RSS", rss}, {"Usage", usage}, {"Max Usage", highest}} {
		if m.value > 0 {
			s.Measured = append(s.Measured, m.name)
		}
	}
}

// SetPercent sets the use of one processor in percent. coreMHz is the speed of one processor, 0 if it is
// unknown.
func (s *CpuStats) SetPercent(percent, coreMHz float64) {
	s.Percent = percent
	s.Measured = []string{"Percent"}
	if coreMHz > 0 {
		s.TotalTicks = percent / 100 * coreMHz
		s.Measured = append(s.Measured, "Total Ticks")
	}
}

// AddTask adds the use of a task.
func (u *AllocResourceUsage) AddTask(name string, t *TaskResourceUsage) {
	u.Tasks[name] = t
	u.ResourceUsage.add(t.ResourceUsage)
	u.Timestamp = max(u.Timestamp, t.Timestamp)
}

// add adds another use. It shares no map and no list with it.
func (u *ResourceUsage) add(o *ResourceUsage) {
	m := u.MemoryStats
	m.RSS += o.MemoryStats.RSS
	m.Usage += o.MemoryStats.Usage
	m.MaxUsage += o.MemoryStats.MaxUsage
	m.Measured = union(m.Measured, o.MemoryStats.Measured)
	u.CpuStats.TotalTicks += o.CpuStats.TotalTicks
	u.CpuStats.Percent += o.CpuStats.Percent
	u.CpuStats.Measured = union(u.CpuStats.Measured, o.CpuStats.Measured)
	for _, g := range o.DeviceStats {
		u.addDevices(g)
	}
}

// union returns the names of both lists, each once.
func union(a, b []string) []string {
	for _, name := range b {
		if !slices.Contains(a, name) {
			a = append(a, name)
		}
	}
	return a
}

func (u *ResourceUsage) addDevices(g *DeviceGroupStats) {
	for _, known := range u.DeviceStats {
		if known.ID() == g.ID() {
			maps.Copy(known.InstanceStats, g.InstanceStats)
			return
		}
	}
	own := *g
	own.InstanceStats = maps.Clone(g.InstanceStats)
	u.DeviceStats = append(u.DeviceStats, &own)
}
