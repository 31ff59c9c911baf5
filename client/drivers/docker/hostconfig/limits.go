package hostconfig

import (
	"runtime"
	"time"

	"github.com/moby/moby/api/types/container"

	"berth/client/drivers/docker/taskconfig"
	"berth/client/drivers/driver"
	"berth/structs"
)

const (
	// minMemory is the least limit and the least reservation that a daemon accepts, in bytes.
	minMemory = 6 << 20
	// minShares and maxShares are the kernel's bounds of a weight.
	minShares = 2
	maxShares = 1 << 18
	// defaultPeriod is the period of a processor quota.
	defaultPeriod = 100 * time.Millisecond
	// minQuota is the kernel's least quota.
	minQuota = time.Millisecond
)

// NodeLimits has what a node says about the limits of its containers.
type NodeLimits struct {
	// PIDs is the number of processes of a container whose job names none. Below 1 there is no limit.
	PIDs int
	// MHz is the node's, over all cores. A quota of processor time is a share of them. 0 is unknown.
	MHz int
}

// AddLimits sets the limits of a task in the configuration of its container. An error is of kind invalid: the
// limits of the task contradict each other.
func AddLimits(
	h *container.HostConfig, cfg *driver.TaskConfig, want *taskconfig.Task, node NodeLimits,
) error {
	r := cfg.Resources
	// Without a weight the container has the daemon's default one.
	if r.CPU > 0 {
		h.CPUShares = int64(min(max(r.CPU, minShares), maxShares))
	}

	err := addMemory(h, r, want.MemoryHardLimit)
	if err != nil {
		return err
	}

	pids := int64(node.PIDs)
	if want.PIDsLimit > 0 {
		pids = want.PIDsLimit
	}

	// A daemon takes a limit only as a pointer: nil is none.
	if pids > 0 {
		h.PidsLimit = &pids
	}

	h.Ulimits = want.Ulimits
	h.CpusetCpus = want.CPUSet
	if !want.CPUHardLimit {
		return nil
	}

	period := want.CPUCFSPeriod
	if period == 0 {
		period = defaultPeriod
	}

	h.CPUPeriod = period.Microseconds()
	h.CPUQuota = quotaOf(r.CPU, node.MHz, period).Microseconds()
	return nil
}

// addMemory limits the memory: to the hard limit or memory_max if there is one, with the task's memory kept
// for it. There is no swap.
func addMemory(h *container.HostConfig, r structs.Resources, hard int) error {
	if hard > 0 && hard < r.MemoryMB {
		return structs.Invalidf("config.memory_hard_limit: %d is less than the task's memory, %d", hard,
			r.MemoryMB)
	}

	most := max(hard, r.MemoryMaxMB, r.MemoryMB)
	if most <= 0 {
		return nil
	}

	// The least limit of a daemon precedes the job's: a container with less is not made.
	h.Memory = max(bytesOf(most), minMemory)
	// The limit is of memory and swap together, so the same number is no swap.
	h.MemorySwap = h.Memory
	reserved := bytesOf(r.MemoryMB)
	if reserved >= minMemory && reserved < h.Memory {
		h.MemoryReservation = reserved
	}

	return nil
}

// bytesOf applies the bound of jobs: an allocation may come from servers that did not check it.
func bytesOf(mib int) int64 {
	return int64(min(mib, structs.MaxMemoryMB)) << 20
}

// quotaOf is the processor time in a period for a number of MHz. total is the machine's; 0 is unknown.
// A quota is over all processors, so the share of the node's MHz is one of their number.
func quotaOf(mhz, total int, period time.Duration) time.Duration {
	if total <= 0 || mhz <= 0 {
		return 0
	}
	share := float64(mhz) / float64(total) * float64(runtime.NumCPU())
	return max(time.Duration(share*float64(period)), minQuota)
}
