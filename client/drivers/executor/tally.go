package executor

import (
	"os"

	"berth/client/cgroups"
)

// tickNanos is a tick of the kernel's process times: USER_HZ is 100 on every architecture that Go knows.
const tickNanos = 1e9 / 100

// tallyTree sums up the resource use of a process and its descendants, except ended ones.
func tallyTree(root int) cgroups.Stats {
	seen, children := map[int]procStat{}, map[int][]int{}
	err := eachProcess(func(pid int, s procStat) {
		seen[pid] = s
		children[s.ppid] = append(children[s.ppid], pid)
	})
	if err != nil {
		return cgroups.Stats{}
	}
	var total cgroups.Stats
	for todo := []int{root}; len(todo) > 0; {
		pid := todo[0]
		todo = append(todo[1:], children[pid]...)
		if s, ok := seen[pid]; ok {
			total.PIDs++
			total.CPUTotal += s.cpu * tickNanos
			total.MemoryRSS += s.pages * uint64(os.Getpagesize())
		}
	}
	return total
}
