package structs

// Resources is what a task asks for, or what is left of a node. CPU is in MHz, memory and disk in MiB.
type Resources struct {
	CPU         int
	Cores       int
	MemoryMB    int
	MemoryMaxMB int
	DiskMB      int
}

// Add returns the sum.
func (r Resources) Add(o Resources) Resources {
	r.CPU += o.CPU
	r.MemoryMB += o.MemoryMB
	r.DiskMB += o.DiskMB
	return r
}

// Sub returns the difference.
func (r Resources) Sub(o Resources) Resources {
	r.CPU -= o.CPU
	r.MemoryMB -= o.MemoryMB
	r.DiskMB -= o.DiskMB
	return r
}

// Exceeded names the first dimension in which o does not fit into r, "" if it fits.
func (r Resources) Exceeded(o Resources) string {
	switch {
	case o.CPU > r.CPU:
		return "cpu"
	case o.MemoryMB > r.MemoryMB:
		return "memory"
	case o.DiskMB > r.DiskMB:
		return "disk"
	}
	return ""
}
