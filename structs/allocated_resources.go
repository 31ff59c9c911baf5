package structs

// AllocatedResources are the resources of an allocation by its tasks, as the dialect shows them.
type AllocatedResources struct {
	Tasks  map[string]*AllocatedTaskResources
	Shared AllocatedSharedResources
}

// AllocatedTaskResources are the resources of one task.
type AllocatedTaskResources struct {
	CPU     AllocatedCPU `json:"Cpu"`
	Memory  AllocatedMemory
	Devices []*AllocatedDeviceResource `json:",omitempty"`
}

// AllocatedCPU is in MHz.
type AllocatedCPU struct{ CpuShares int64 }

// AllocatedMemory is in MiB.
type AllocatedMemory struct {
	MemoryMB    int64
	MemoryMaxMB int64 `json:",omitempty"`
}

// AllocatedSharedResources are the resources of the whole allocation.
type AllocatedSharedResources struct {
	DiskMB   int64
	Networks []*NetworkResource `json:",omitempty"` // the ports once more, by their address
	Ports    []AllocatedPort    `json:",omitempty"`
}

// WithResources returns a copy with AllocatedResources, TaskResources and DesiredTransition. Without its job
// an allocation has only the resources of tasks with devices. nil stays nil.
func (a *Allocation) WithResources() *Allocation {
	if a == nil {
		return nil
	}

	all := &AllocatedResources{Tasks: map[string]*AllocatedTaskResources{}}
	demands := map[string]*Resources{}
	if a.Resources != nil {
		all.Shared.DiskMB = int64(a.Resources.DiskMB)
	}

	if a.Job != nil {
		if g := a.Job.Group(a.TaskGroup); g != nil {
			for _, t := range g.Tasks {
				all.Tasks[t.Name] = t.allocated()
				if a.NoMemoryMax {
					all.Tasks[t.Name].Memory.MemoryMaxMB = 0
				}

				if t.Resources != nil {
					demands[t.Name] = t.Resources
				}
			}
		}
	}

	for task, devices := range a.Devices {
		if all.Tasks[task] == nil {
			all.Tasks[task] = &AllocatedTaskResources{}
		}

		all.Tasks[task].Devices = devices
	}

	all.Shared.Ports = a.Ports
	all.Shared.Networks = networksOf(a.Ports, a.ModeOf())
	c := *a
	c.AllocatedResources = all
	c.TaskResources = demands
	c.DesiredTransition = &DesiredTransition{
		Migrate:         &c.Migrate,
		NoShutdownDelay: &c.NoShutdownDelay,
	}
	return &c
}

// networksOf returns the ports of an allocation by their address, in the dialect's older shape.
func networksOf(ports []AllocatedPort, mode string) []*NetworkResource {
	var all []*NetworkResource
	byIP := map[string]*NetworkResource{}
	for _, p := range ports {
		n := byIP[p.HostIP]
		if n == nil {
			n = &NetworkResource{Mode: mode, IP: p.HostIP}
			byIP[p.HostIP] = n
			all = append(all, n)
		}
		n.DynamicPorts = append(n.DynamicPorts, Port{
			Label: p.Label,
			Value: p.Value,
			To:    p.To,
		})
	}
	return all
}

func (t *Task) allocated() *AllocatedTaskResources {
	r := &AllocatedTaskResources{}
	if t.Resources != nil {
		r.CPU.CpuShares = int64(t.Resources.CPU)
		r.Memory.MemoryMB = int64(t.Resources.MemoryMB)
		r.Memory.MemoryMaxMB = int64(t.Resources.MemoryMaxMB)
	}
	return r
}
