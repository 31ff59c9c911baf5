package external

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"

	"berth/client/drivers/driver"
	protocol "berth/client/drivers/protocol/driver"
	"berth/structs"
)

// taskConfig converts the configuration of a task, but for the driver's part, the mounts and the user.
func (d *Driver) taskConfig(cfg *driver.TaskConfig, p pipes) *protocol.TaskConfig {
	// The ID of a task begins with the ID of its allocation (driver.TaskConfig).
	allocID, _, _ := strings.Cut(cfg.ID, "/")
	return &protocol.TaskConfig{
		Id:            cfg.ID,
		Name:          cfg.Task,
		Env:           cfg.Env,
		DeviceEnv:     cfg.DeviceEnv,
		Resources:     d.resourcesOf(cfg),
		Devices:       devicesOf(cfg.Mounts),
		AllocDir:      filepath.Dir(cfg.Dirs.Task),
		StdoutPath:    p.stdout,
		StderrPath:    p.stderr,
		TaskGroupName: cfg.Of.Group,
		JobName:       cfg.Of.JobName,
		JobId:         cfg.Of.JobID,
		ParentJobId:   cfg.Of.ParentID,
		Namespace:     cfg.Of.Namespace,
		AllocId:       allocID,
		NodeId:        d.cfg.Node.ID,
		NodeName:      d.cfg.Node.Name,
		Dns:           dnsOf(cfg.Network),

		NetworkIsolationSpec: isolationOf(cfg.Network),
	}
}

// isolationOf returns the network of the task's allocation, nil for the node's.
func isolationOf(n *driver.Network) *protocol.NetworkIsolationSpec {
	if n == nil || n.Namespace == "" {
		return nil
	}
	return &protocol.NetworkIsolationSpec{
		Mode: protocol.NetworkIsolationSpec_GROUP,
		Path: n.Namespace,
		HostsConfig: &protocol.HostsConfig{
			Hostname: n.Hostname,
			Address:  n.Address,
		},
	}
}

// dnsOf returns nil where the task uses the name servers of the node.
func dnsOf(n *driver.Network) *protocol.DNSConfig {
	if n == nil || n.DNS.IsEmpty() {
		return nil
	}
	return &protocol.DNSConfig{
		Servers:  n.DNS.Servers,
		Searches: n.DNS.Searches,
		Options:  n.DNS.Options,
	}
}

// joinsNetworks reports whether the driver starts tasks in the network namespace of an allocation. One that
// has to make the namespace itself cannot share it with the tasks of other drivers.
func joinsNetworks(can *protocol.DriverCapabilities) bool {
	return slices.Contains(can.GetNetworkIsolationModes(), protocol.NetworkIsolationSpec_GROUP) &&
		!can.GetMustCreateNetwork()
}

// cpuPeriod is the period of the processor quota, in microseconds.
const cpuPeriod = 100_000

// memoryLimit is the memory in bytes beyond which a task is killed.
func memoryLimit(cfg *driver.TaskConfig) int64 {
	return int64(max(cfg.Resources.MemoryMB, cfg.Resources.MemoryMaxMB)) << 20
}

// resourcesOf gives each limit in the two forms of the interface: as the job has it, and as the kernel takes
// it. Drivers use one or the other.
func (d *Driver) resourcesOf(cfg *driver.TaskConfig) *protocol.Resources {
	r := cfg.Resources
	return &protocol.Resources{
		Ports: portsOf(cfg.Ports),
		AllocatedResources: &protocol.AllocatedTaskResources{
			Cpu: &protocol.AllocatedCpuResources{CpuShares: int64(r.CPU)},
			Memory: &protocol.AllocatedMemoryResources{
				MemoryMb:    int64(r.MemoryMB),
				MemoryMaxMb: int64(r.MemoryMaxMB),
			},
		},
		LinuxResources: &protocol.LinuxResources{
			CpuPeriod:        cpuPeriod,
			CpuShares:        int64(r.CPU),
			MemoryLimitBytes: memoryLimit(cfg),
			// The share of the processors of the node, of which drivers make a hard limit with CpuPeriod. A
			// node that does not know its speed has 0 MHz.
			PercentTicks: float64(r.CPU) / float64(max(d.cfg.MHz, 1)),
			CpusetCgroup: d.groupOf(cfg.ID).V2,
		},
	}
}

// portsOf gives a driver the ports of the allocation. A driver with a network of its own maps Value on the
// node to To in the task.
func portsOf(ports []structs.AllocatedPort) []*protocol.PortMapping {
	var all []*protocol.PortMapping
	for _, p := range ports {
		all = append(all, &protocol.PortMapping{
			Label:  p.Label,
			Value:  int32(p.Value),
			To:     int32(p.To),
			HostIp: p.HostIP,
		})
	}
	return all
}

// mountOf converts a mount. In the interface, devices are no mounts: see devicesOf.
func mountOf(m driver.Mount) *protocol.Mount {
	return &protocol.Mount{
		TaskPath:        m.TaskPath,
		HostPath:        m.HostPath,
		Readonly:        m.ReadOnly,
		PropagationMode: cmp.Or(m.Propagation, "private"),
		RequestName:     m.Volume,
	}
}

// devicesOf has the device files among the mounts.
func devicesOf(mounts []driver.Mount) []*protocol.Device {
	var all []*protocol.Device
	for _, m := range mounts {
		if !m.Device {
			continue
		}
		permissions := cmp.Or(m.Permissions, "rwm")
		if m.ReadOnly {
			// A read-only mount of a device file does not prevent writes to the device.
			permissions = "r"
		}
		all = append(all, &protocol.Device{
			TaskPath:          m.TaskPath,
			HostPath:          m.HostPath,
			CgroupPermissions: permissions,
		})
	}
	return all
}
