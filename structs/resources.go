package structs

import "math"

// Resources are the demand of a task, or the free resources of a node. CPU is in MHz, memory and disk in MiB.
// Only a demand has devices: sums are without them.
type Resources struct {
	CPU         int
	Cores       int
	MemoryMB    int
	MemoryMaxMB int
	DiskMB      int
	Devices     []*RequestedDevice `json:",omitempty" codec:",omitempty"`
}

// Equal reports whether the amounts are the same. It ignores devices.
func (r Resources) Equal(o Resources) bool {
	return r.CPU == o.CPU && r.Cores == o.Cores &&
		r.MemoryMB == o.MemoryMB && r.MemoryMaxMB == o.MemoryMaxMB && r.DiskMB == o.DiskMB
}

// Add returns the sum. A sum that is too large for an int is the largest there is, so it fits nowhere.
func (r Resources) Add(o Resources) Resources {
	r.CPU = AddSaturated(r.CPU, o.CPU)
	r.MemoryMB = AddSaturated(r.MemoryMB, o.MemoryMB)
	r.DiskMB = AddSaturated(r.DiskMB, o.DiskMB)
	r.Devices = nil
	return r
}

// Sub returns the difference, within the same bounds as Add.
func (r Resources) Sub(o Resources) Resources {
	return r.Add(Resources{
		CPU:      -o.CPU,
		MemoryMB: -o.MemoryMB,
		DiskMB:   -o.DiskMB,
	})
}

// AddSaturated returns the sum, or the nearest int if the sum is none.
func AddSaturated(a, b int) int {
	sum := a + b
	switch {
	case a > 0 && b > 0 && sum < 0:
		return math.MaxInt
	case a < 0 && b < 0 && sum >= 0:
		return math.MinInt
	}
	return sum
}

// Least returns the smaller amount of each dimension, at least 0.
func (r Resources) Least(o Resources) Resources {
	return Resources{
		CPU:      max(0, min(r.CPU, o.CPU)),
		MemoryMB: max(0, min(r.MemoryMB, o.MemoryMB)),
		DiskMB:   max(0, min(r.DiskMB, o.DiskMB)),
	}
}

// Exceeded names the first dimension in which o does not fit into r, "" if it fits.
func (r Resources) Exceeded(o Resources) string {
	switch {
	case o.CPU > r.CPU:
		return DimensionCPU
	case o.MemoryMB > r.MemoryMB:
		return DimensionMemory
	case o.DiskMB > r.DiskMB:
		return DimensionDisk
	}
	return ""
}

// CapacityDimensions returns the names of the dimensions of a node's capacity.
func CapacityDimensions() []string { return []string{DimensionCPU, DimensionMemory, DimensionDisk} }

// The dimensions of capacity, as reasons name them.
const (
	DimensionCPU    = "cpu"
	DimensionMemory = "memory"
	DimensionDisk   = "disk"
)

// LogConfig bounds a task's logs.
type LogConfig struct {
	MaxFiles      int
	MaxFileSizeMB int
	Disabled      bool
}
