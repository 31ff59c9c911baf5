package structs

// Validate checks the numbers and sizes that a node reports of itself.
func (n *Node) Validate() error {
	f := newFaults("").at("node %q", n.ID)
	for _, text := range []struct{ what, value string }{{"ID", n.ID}, {"Name", n.Name},
		{"Datacenter", n.Datacenter}, {"NodeClass", n.NodeClass}, {"NodePool", n.NodePool}, {"SecretID", n.SecretID}, {"HTTPAddr", n.HTTPAddr}} {
		f.check(len(text.value) <= MaxName, "%s has %d bytes; at most %d are allowed", text.what, len(text.value), MaxName)
	}
	n.NodeResources.validate(f.at("NodeResources"))
	n.ReservedResources.validate(f.at("ReservedResources"))
	f.reported(len(n.Attributes)+len(n.Meta)+len(n.Drivers), pairBytes(n.Attributes)+pairBytes(n.Meta)+driverBytes(n.Drivers))
	return f.err()
}

func (f faults) reported(entries, bytes int) {
	f.atMost("attributes, meta entries and drivers", entries, MaxNodeAttributes)
	f.check(bytes <= MaxNodeBytes, "its attributes, meta and drivers have %d bytes; at most %d are allowed", bytes, MaxNodeBytes)
}

func pairBytes(m map[string]string) (total int) {
	for k, v := range m {
		total += len(k) + len(v)
	}
	return total
}

func driverBytes(m map[string]*DriverInfo) (total int) {
	for name, d := range m {
		total += len(name)
		if d != nil {
			total += len(d.HealthDescription) + pairBytes(d.Attributes)
		}
	}
	return total
}

func (r *NodeResources) validate(f faults) {
	if r == nil {
		return
	}
	f.total("CPU", r.CPU.CpuShares, MaxCPU, "MHz")
	f.total("memory", r.Memory.MemoryMB, MaxMemoryMB, "MiB")
	f.total("disk", r.Disk.DiskMB, MaxDiskMB, "MiB")
}

func (r *NodeReservedResources) validate(f faults) {
	if r == nil {
		return
	}
	f.check(r.CPU.CpuShares <= MaxCPU, "CPU %d must be from 0 to %d MHz", r.CPU.CpuShares, MaxCPU)
	f.total("memory", r.Memory.MemoryMB, MaxMemoryMB, "MiB")
	f.total("disk", r.Disk.DiskMB, MaxDiskMB, "MiB")
}

func (f faults) total(what string, n, most int64, unit string) {
	f.check(n >= 0 && n <= most, "%s %d must be from 0 to %d %s", what, n, most, unit)
}
