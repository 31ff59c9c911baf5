package executor

import (
	"github.com/prometheus/procfs"

	"berth/client/drivers/cgroups"
)

// tickNanos is a tick of the kernel's process times: USER_HZ is 100 on every architecture that Go knows.
const tickNanos = 1e9 / 100

// tallyTree adds up the resource use of a process and its descendants, except ended ones.
func tallyTree(root int) cgroups.Stats {
	seen := map[int]procfs.ProcStat{}
	children := map[int][]int{}
	err := eachProcess(func(s procfs.ProcStat) {
		seen[s.PID] = s
		children[s.PPID] = append(children[s.PPID], s.PID)
	})
	if err != nil {
		return cgroups.Stats{}
	}

	// A descendant that has lost its parent is a child of the supervisor, and is not counted.
	var total cgroups.Stats
	todo := []int{root}
	for len(todo) > 0 {
		pid := todo[0]
		todo = append(todo[1:], children[pid]...)
		if s, ok := seen[pid]; ok {
			total.PIDs++
			total.CPUTotal += uint64(s.UTime+s.STime) * tickNanos
			total.CPUUser += uint64(s.UTime) * tickNanos
			total.CPUSystem += uint64(s.STime) * tickNanos
			total.MemoryRSS += uint64(s.ResidentMemory())
		}
	}

	return total
}
