package cgroups

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Stats is the resource use of a group's processes: memory in bytes, CPU in nanoseconds. A value without a
// controller is zero.
type Stats struct {
	MemoryRSS   uint64
	MemoryUsage uint64 // with the page cache
	MemoryMax   uint64 // the highest use so far
	MemoryCache uint64 // the page cache alone
	MemorySwap  uint64
	CPUTotal    uint64
	CPUUser     uint64
	CPUSystem   uint64
	// ThrottledPeriods counts the periods in which the group had used its share up, and ThrottledTime is how
	// long it waited in them.
	ThrottledPeriods uint64
	ThrottledTime    uint64
	PIDs             uint64
}

// Stats reads the group's counters.
func (g *Group) Stats() Stats {
	var s Stats
	if dir := g.V1[Memory]; dir != "" {
		// total_ counts the groups below, too. In v2 all counters do.
		s.MemoryRSS = readField(dir, "memory.stat", "total_rss")
		s.MemoryUsage = readNumber(dir, "memory.usage_in_bytes")
		s.MemoryMax = readNumber(dir, "memory.max_usage_in_bytes")
		s.MemoryCache = readField(dir, "memory.stat", "total_cache")
		s.MemorySwap = readField(dir, "memory.stat", "total_swap")
	} else {
		s.MemoryRSS = readField(g.V2, "memory.stat", "anon")
		s.MemoryUsage = readNumber(g.V2, "memory.current")
		s.MemoryMax = readNumber(g.V2, "memory.peak")
		s.MemoryCache = readField(g.V2, "memory.stat", "file")
		s.MemorySwap = readNumber(g.V2, "memory.swap.current")
	}

	g.readCPU(&s)
	// The counter of the pids controller has threads, too.
	if pids, err := g.PIDs(); err == nil {
		s.PIDs = uint64(len(pids))
	}

	return s
}

// readCPU reads the counters of processors: microseconds in v2, and nanoseconds in v1.
func (g *Group) readCPU(s *Stats) {
	const micro = 1000
	if dir := g.V1[CPUAcct]; dir != "" {
		s.CPUTotal = readNumber(dir, "cpuacct.usage")
		s.CPUUser = readNumber(dir, "cpuacct.usage_user")
		s.CPUSystem = readNumber(dir, "cpuacct.usage_sys")
	} else {
		s.CPUTotal = readField(g.V2, "cpu.stat", "usage_usec") * micro
		s.CPUUser = readField(g.V2, "cpu.stat", "user_usec") * micro
		s.CPUSystem = readField(g.V2, "cpu.stat", "system_usec") * micro
	}

	if dir := g.V1[CPU]; dir != "" {
		s.ThrottledPeriods = readField(dir, "cpu.stat", "nr_throttled")
		s.ThrottledTime = readField(dir, "cpu.stat", "throttled_time")
	} else {
		s.ThrottledPeriods = readField(g.V2, "cpu.stat", "nr_throttled")
		s.ThrottledTime = readField(g.V2, "cpu.stat", "throttled_usec") * micro
	}
}

// OOMKills is the number of processes of the group that the kernel killed for lack of memory in the group.
func (g *Group) OOMKills() uint64 {
	if dir := g.V1[Memory]; dir != "" {
		return readField(dir, "memory.oom_control", "oom_kill")
	}
	return readField(g.V2, "memory.events", "oom_kill")
}

// Controllers lists the controllers that the machine gives a group, as "memory(v1)".
func (m *Machine) Controllers() []string {
	var list []string
	for _, c := range wanted {
		if m.V1[c] != "" {
			list = append(list, c+"(v1)")
		} else if m.Missing[c] == "" && c != CPUAcct {
			list = append(list, c+"(v2)")
		}
	}
	return list
}

// readControl returns the content of a control file, "" if the group has no such file. dir may be "".
func readControl(dir, file string) string {
	if dir == "" {
		return ""
	}
	b, _ := os.ReadFile(filepath.Join(dir, file))
	return string(b)
}

// readNumber returns 0 for a file that is missing: a counter that the kernel lacks, such as memory.peak
// before 5.19, is left out.
func readNumber(dir, file string) uint64 {
	n, _ := strconv.ParseUint(strings.TrimSpace(readControl(dir, file)), 10, 64)
	return n
}

// readField reads the number after a name at the start of a line.
func readField(dir, file, name string) uint64 {
	for line := range strings.Lines(readControl(dir, file)) {
		f := strings.Fields(line)
		if len(f) == 2 && f[0] == name {
			n, _ := strconv.ParseUint(f[1], 10, 64)
			return n
		}
	}
	return 0
}
