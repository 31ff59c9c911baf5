package machine

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// maxCores and maxNodes bound the processors and the NUMA nodes of a machine.
	maxCores = 8192
	maxNodes = 1024
	// maxMHz bounds a speed.
	maxMHz = 1_000_000
	// nearDistance and farDistance are the kernel's distances of a NUMA node from itself and from another
	// one.
	nearDistance = 10
	farDistance  = 20
)

// Topology has the NUMA nodes and the processors of a machine. It has at least one of each.
type Topology struct {
	Nodes     []int   // IDs of the NUMA nodes, ascending
	Distances [][]int // one row and one column per node of Nodes
	Cores     []Core  // by ID, ascending
}

// Core is one logical processor. The speeds are in MHz, 0 if unknown.
type Core struct {
	ID         int
	Socket     int
	Node       int
	Efficient  bool // a slow core of a mixed processor
	Disabled   bool // the agent, and so its tasks, must not run on it
	BaseSpeed  int
	MaxSpeed   int
	GuessSpeed int // never 0: it stands in for unknown speeds
}

// ReadTopology reads the topology of this machine. It has a fallback for each file that the kernel lacks.
func ReadTopology() *Topology {
	var set unix.CPUSet
	err := unix.SchedGetaffinity(0, &set)

	// Without an answer of the kernel, no processor counts as disabled.
	usable := func(id int) bool { return err != nil || set.IsSet(id) }
	return readTopology("/", usable)
}

func readTopology(root string, usable func(core int) bool) *Topology {
	system := filepath.Join(root, "sys/devices/system")
	t := &Topology{Nodes: readList(filepath.Join(system, "node/online"), maxNodes)}
	// A kernel without NUMA has no such file.
	if len(t.Nodes) == 0 {
		t.Nodes = []int{0}
	}

	nodes := map[int]int{} // by core
	for _, n := range t.Nodes {
		dir := filepath.Join(system, "node", fmt.Sprintf("node%d", n))
		t.Distances = append(t.Distances, readDistances(dir, n, t.Nodes))
		for _, core := range readList(filepath.Join(dir, "cpulist"), maxCores) {
			nodes[core] = n
		}
	}

	ids := readList(filepath.Join(system, "cpu/online"), maxCores)
	// A sandbox may hide the files of the kernel.
	if len(ids) == 0 {
		for id := range runtime.NumCPU() {
			ids = append(ids, id)
		}
	}

	// The kernel lists the slow cores of mixed processors of Intel here.
	slow := readList(filepath.Join(root, "sys/devices/cpu_atom/cpus"), maxCores)
	guess := guessSpeed(root)
	for _, id := range ids {
		core := readCore(filepath.Join(system, "cpu", fmt.Sprintf("cpu%d", id)))
		core.ID = id
		// A core that no node lists counts for the first one.
		core.Node = t.Nodes[0]
		if n, known := nodes[id]; known {
			core.Node = n
		}

		core.Efficient = slices.Contains(slow, id)
		core.Disabled = !usable(id)
		core.GuessSpeed = guess
		t.Cores = append(t.Cores, core)
	}

	return t
}

// readCore reads the properties that are in the directory of a core.
func readCore(dir string) Core {
	return Core{
		Socket: readNumber(filepath.Join(dir, "topology/physical_package_id"), maxCores),
		// The kernel tells kHz.
		BaseSpeed: readNumber(filepath.Join(dir, "cpufreq/base_frequency"), maxMHz*1000) / 1000,
		MaxSpeed:  readNumber(filepath.Join(dir, "cpufreq/cpuinfo_max_freq"), maxMHz*1000) / 1000,
	}
}

// readDistances returns a row of the matrix. It has the kernel's defaults if the kernel reports no such row.
func readDistances(dir string, node int, nodes []int) []int {
	b, _ := os.ReadFile(filepath.Join(dir, "distance"))
	fields := strings.Fields(string(b))
	row := make([]int, len(nodes))
	for i, other := range nodes {
		row[i] = farDistance
		if other == node {
			row[i] = nearDistance
		}

		// A row of another length is not about these nodes.
		if len(fields) != len(nodes) {
			continue
		}

		// A distance has one byte.
		distance, err := strconv.ParseUint(fields[i], 10, 8)
		if err == nil && distance > 0 {
			row[i] = int(distance)
		}
	}

	return row
}

// readNumber reads a number from 0 to most. Any other content, as the -1 of a machine without sockets, is 0.
func readNumber(path string, most int) int {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || n < 0 || n > most {
		return 0
	}
	return n
}

// readList reads a list of the kernel, as "0-3,8", of numbers below limit. It is empty if the file has
// something else.
func readList(path string, limit int) []int {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil
	}

	var all []int
	for part := range strings.SplitSeq(strings.TrimSpace(string(b)), ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}

		from, err := strconv.Atoi(first)
		if err != nil {
			return nil
		}

		to, err := strconv.Atoi(last)
		if err != nil || from < 0 || to < from || to >= limit {
			return nil
		}

		// limit bounds the list.
		for n := from; n <= to; n++ {
			all = append(all, n)
		}
	}

	slices.Sort(all)
	return slices.Compact(all)
}
