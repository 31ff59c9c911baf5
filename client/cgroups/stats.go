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
	MemoryRSS uint64
	MemoryMax uint64 // the most there ever was
	CPUTotal  uint64
	PIDs      uint64
}

// Stats reads the group's counters.
func (g *Group) Stats() Stats {
	var s Stats
	if dir := g.V1[Memory]; dir != "" {
		s.MemoryRSS = field(filepath.Join(dir, "memory.stat"), "total_rss")
		s.MemoryMax = number(filepath.Join(dir, "memory.max_usage_in_bytes"))
	} else if g.V2 != "" {
		s.MemoryRSS = field(filepath.Join(g.V2, "memory.stat"), "anon")
		s.MemoryMax = number(filepath.Join(g.V2, "memory.peak"))
	}
	if dir := g.V1[CPUAcct]; dir != "" {
		s.CPUTotal = number(filepath.Join(dir, "cpuacct.usage"))
	} else if g.V2 != "" {
		s.CPUTotal = field(filepath.Join(g.V2, "cpu.stat"), "usage_usec") * 1000
	}
	if pids, err := g.PIDs(); err == nil {
		s.PIDs = uint64(len(pids))
	}
	return s
}

// OOMKills is how many processes of the group the kernel killed because the group had no memory left.
func (g *Group) OOMKills() uint64 {
	if dir := g.V1[Memory]; dir != "" {
		return field(filepath.Join(dir, "memory.oom_control"), "oom_kill")
	}
	if g.V2 == "" {
		return 0
	}
	return field(filepath.Join(g.V2, "memory.events"), "oom_kill")
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

func number(path string) uint64 {
	b, _ := os.ReadFile(path)
	n, _ := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
	return n
}

// field reads the number after a name at the start of a line.
func field(path, name string) uint64 {
	b, _ := os.ReadFile(path)
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == name {
			n, _ := strconv.ParseUint(f[1], 10, 64)
			return n
		}
	}
	return 0
}
