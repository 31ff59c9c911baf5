package structs

// AllocResourceUsage is the resource use of an allocation on its node at one moment, in the dialect's shape.
// The sums are over the tasks that run. A device group that two tasks use has one entry for both.
type AllocResourceUsage struct {
	ResourceUsage *ResourceUsage
	Tasks         map[string]*TaskResourceUsage // those that run
	Timestamp     int64                         // UnixNano of the newest measurement
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

// MemoryStats is a use of memory in bytes. Measured names the fields that have a value.
type MemoryStats struct {
	RSS      uint64
	MaxUsage uint64
	Measured []string
}

// CpuStats is a use of processors. Measured names the fields that have a value.
type CpuStats struct {
	TotalTicks float64 // MHz
	Percent    float64 // of one processor
	Measured   []string
}

// Add adds the use of another task.
func (u *ResourceUsage) Add(o *ResourceUsage) {
	u.MemoryStats.RSS += o.MemoryStats.RSS
	u.MemoryStats.MaxUsage += o.MemoryStats.MaxUsage
	u.CpuStats.TotalTicks += o.CpuStats.TotalTicks
	u.CpuStats.Percent += o.CpuStats.Percent
	for _, g := range o.DeviceStats {
		u.addDevices(g)
	}
}

func (u *ResourceUsage) addDevices(g *DeviceGroupStats) {
	for _, known := range u.DeviceStats {
		if known.ID() != g.ID() {
			continue
		}
		for id, stats := range g.InstanceStats {
			known.InstanceStats[id] = stats
		}
		return
	}
	own := *g
	own.InstanceStats = map[string]*DeviceStats{}
	for id, stats := range g.InstanceStats {
		own.InstanceStats[id] = stats
	}
	u.DeviceStats = append(u.DeviceStats, &own)
}

// NewResourceUsage returns the use of nothing.
func NewResourceUsage() *ResourceUsage {
	return &ResourceUsage{
		MemoryStats: &MemoryStats{Measured: []string{"RSS", "Max Usage"}},
		CpuStats:    &CpuStats{Measured: []string{"Percent", "Total Ticks"}},
	}
}
