package shape

import "berth/structs"

// SchedFleets are the sizes of fleets on which the scheduler places.
var SchedFleets = []int{1000, 5000, 10_000}

// SchedDisk is the scratch space of an allocation, in MiB.
const SchedDisk = 100

// The sizes of the changes: allocations of a service that are updated, nodes that drain with their
// allocations, and jobs with a volume each.
const (
	SchedUpdated = 10_000
	SchedDrains  = 100
	SchedDrained = 5000
	SchedVolumes = 1000
)

// SchedCapacity returns the resources of node i: a third of the nodes each is small, medium and large.
func SchedCapacity(i int) (cpu, memory, disk int) {
	size := 1 << (i % 3)
	return 4000 * size, 8192 * size, 100 << 10
}

// SchedAsk returns the demand of an allocation of job i.
func SchedAsk(i int) (cpu, memory int) {
	return 100 + 50*(i%8), 128 + 64*(i%6)
}

// SchedWork is the jobs of one benchmark of the scheduler.
type SchedWork struct {
	Name  string
	Type  string
	Jobs  int
	Count int // of each job; of a system job for each node
}

// SchedWorks returns the works. bench/peer/schedbench has the same.
func SchedWorks() []SchedWork {
	return []SchedWork{
		{"service", structs.JobService, 1, 10_000},
		{"services", structs.JobService, 1000, 10},
		{"system", structs.JobSystem, 1, 1},
		{"batch", structs.JobBatch, 1, 5000},
	}
}

// Allocations returns the number of allocations on a fleet.
func (w SchedWork) Allocations(nodes int) int {
	if w.Type == structs.JobSystem {
		return nodes
	}
	return w.Jobs * w.Count
}
