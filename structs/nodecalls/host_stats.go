package nodecalls

// HostStats is the resource use of a node's machine at one moment, in the dialect's shape.
type HostStats struct {
	Memory           *HostMemoryStats
	CPU              []*HostCPUStats     // one per processor
	DiskStats        []*HostDiskStats    // one per mounted file system that has a device
	AllocDirStats    *HostDiskStats      // of the file system that allocations use
	DeviceStats      []*DeviceGroupStats // the last that device plugins sent
	Uptime           uint64              // seconds
	Timestamp        int64               // UnixNano
	CPUTicksConsumed float64             // MHz, over all processors
}

// HostMemoryStats is the memory of a machine in bytes.
type HostMemoryStats struct {
	Total     uint64
	Available uint64
	Used      uint64
	Free      uint64
}

// HostCPUStats is the use of one processor in percent.
type HostCPUStats struct {
	CPU    string // cpu0, cpu1, ...
	User   float64
	System float64
	Idle   float64
	Total  float64 // all but idle
}

// HostDiskStats is the use of one file system, in bytes.
type HostDiskStats struct {
	Device            string
	Mountpoint        string
	Size              uint64
	Used              uint64
	Available         uint64
	UsedPercent       float64
	InodesUsedPercent float64
}
