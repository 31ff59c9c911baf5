package scheduler

import (
	"testing"

	"berth/scheduler/place"
	"berth/state"
	"berth/structs"
	"berth/structs/cluster"
)

// TestSample_PacksALargeGroupByTheAlgorithm: with binpack a group uses its nodes again rather than empty
// larger ones, and with spread it uses all nodes.
func TestSample_PacksALargeGroupByTheAlgorithm(t *testing.T) {
	const nodes = 600
	used := func(algorithm string) map[string]int {
		w := newFixture(nil)
		w.t = t
		do(w, state.SchedulerConfigSet, &cluster.SchedulerConfigRequest{
			Config: cluster.SchedulerConfiguration{SchedulerAlgorithm: algorithm},
		})
		for i := range nodes {
			n := aNode(nodeID(i))
			n.NodeResources.CPU.CpuShares = 1000 << (i % 3)
			n.NodeResources.Memory.MemoryMB = 1000 << (i % 3)
			w.node(n)
		}
		w.job(aJob("web", structs.JobService, count(nodes), cpu(50)))
		w.run("web")
		count := map[string]int{}
		for _, a := range w.allocs("web") {
			count[a.NodeID]++
		}
		return count
	}
	packed := used(cluster.AlgorithmBinpack)
	if len(packed) < place.Enough || len(packed) > nodes/3 {
		t.Errorf("binpack uses %d nodes, want %d to %d", len(packed), place.Enough, nodes/3)
	}
	if spread := used(cluster.AlgorithmSpread); len(spread) != nodes {
		t.Errorf("spread uses %d of %d nodes", len(spread), nodes)
	}
}
