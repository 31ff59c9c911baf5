package executor

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"berth/client/cgroups"
)

// ticks is USER_HZ, which is 100 on every architecture that Go knows.
const tickNanos = 1e9 / 100

// tallyTree adds up what a process and its descendants use, as far as they can be seen. What has ended is
// not counted.
func tallyTree(root int) cgroups.Stats {
	children := map[int][]int{}
	if err := eachProcess(func(pid int, s procStat) { children[s.ppid] = append(children[s.ppid], pid) }); err != nil {
		return cgroups.Stats{}
	}
	var total cgroups.Stats
	for todo := []int{root}; len(todo) > 0; {
		pid := todo[0]
		todo = append(todo[1:], children[pid]...)
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue
		}
		f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
		if len(f) < 22 {
			continue
		}
		total.PIDs++
		total.CPUTotal += (number(f[11]) + number(f[12])) * tickNanos
		total.MemoryRSS += number(f[21]) * uint64(os.Getpagesize())
	}
	return total
}

func number(s string) uint64 {
	n, _ := strconv.ParseUint(s, 10, 64)
	return n
}
