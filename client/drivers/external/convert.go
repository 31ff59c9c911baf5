package external

import (
	"cmp"
	"path/filepath"
	"strings"

	"berth/client/driver"
	protocol "berth/plugins/protocol/driver"
)

// taskConfig converts the configuration of a task. config is that of the driver, in msgpack.
func (d *Driver) taskConfig(cfg *driver.TaskConfig, config []byte, p pipes) *protocol.TaskConfig {
	allocID, _, _ := strings.Cut(cfg.ID, "/")
	return &protocol.TaskConfig{
		Id:                  cfg.ID,
		Name:                cfg.Task,
		MsgpackDriverConfig: config,
		Env:                 cfg.Env,
		Resources:           resourcesOf(cfg),
		Mounts:              mountsOf(cfg.Mounts),
		Devices:             devicesOf(cfg.Mounts),
		User:                cfg.User,
		AllocDir:            filepath.Dir(cfg.Dirs.Task),
		StdoutPath:          p.stdout,
		StderrPath:          p.stderr,
		AllocId:             allocID,
		NodeId:              d.cfg.Node.ID,
		NodeName:            d.cfg.Node.Name,
	}
}

// cpuPeriod is the period of the processor quota, in microseconds.
const cpuPeriod = 100_000

func resourcesOf(cfg *driver.TaskConfig) *protocol.Resources {
	r := cfg.Resources
	return &protocol.Resources{
		AllocatedResources: &protocol.AllocatedTaskResources{
			Cpu:    &protocol.AllocatedCpuResources{CpuShares: int64(r.CPU)},
			Memory: &protocol.AllocatedMemoryResources{MemoryMb: int64(r.MemoryMB), MemoryMaxMb: int64(r.MemoryMaxMB)},
		},
		LinuxResources: &protocol.LinuxResources{
			CpuPeriod:        cpuPeriod,
			CpuShares:        int64(r.CPU),
			MemoryLimitBytes: int64(max(r.MemoryMB, r.MemoryMaxMB)) << 20,
		},
	}
}

func mountsOf(mounts []driver.Mount) []*protocol.Mount {
	var all []*protocol.Mount
	for _, m := range mounts {
		if m.Device {
			continue
		}
		propagation := m.Propagation
		if propagation == "" {
			propagation = "private"
		}
		all = append(all, &protocol.Mount{
			TaskPath:        m.TaskPath,
			HostPath:        m.HostPath,
			Readonly:        m.ReadOnly,
			PropagationMode: propagation,
		})
	}
	return all
}

// devicesOf converts the device files: the driver makes them in the task and lets the task use them.
func devicesOf(mounts []driver.Mount) []*protocol.Device {
	var all []*protocol.Device
	for _, m := range mounts {
		if !m.Device {
			continue
		}
		permissions := cmp.Or(m.Permissions, "rwm")
		if m.ReadOnly {
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
