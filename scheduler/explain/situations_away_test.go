package explain

import (
	"time"

	"berth/scheduler/schedtest"
	"berth/structs"
)

// awaySituations are those of allocations whose node is away, in groups with a disconnect block.
var awaySituations = []situation{
	{name: "an unknown allocation that is replaced", nodes: 2, make: after(
		away(structs.DisconnectStrategy{LostAfter: time.Hour}), reportRunning("n1"))},
	{name: "an unknown allocation that waits for its node", nodes: 2, make: away(structs.DisconnectStrategy{
		Replace: new(false),
	})},
	{name: "an allocation that is known again", nodes: 2, calm: true, make: after(
		away(structs.DisconnectStrategy{LostAfter: time.Hour, Replace: new(false)}),
		nodeStatus("n0", structs.NodeReady), reportRunning("n0"))},
	{name: "an unknown allocation whose node is back", nodes: 2, make: after(
		away(structs.DisconnectStrategy{Replace: new(false)}), nodeStatus("n0", structs.NodeReady),
		(*schedtest.Fleet).Schedule)},
}

// away has an allocation of the job web on n0, which is down for a minute.
func away(rule structs.DisconnectStrategy) func(*schedtest.Fleet) {
	return after(
		running(1, func(g *structs.TaskGroup) {
			g.Disconnect = &rule
			g.Affinities = []*structs.Affinity{{
				LTarget: "${node.unique.id}", Operand: "=", RTarget: "n0", Weight: 100}}
		}),
		nodeStatus("n0", structs.NodeDown), (*schedtest.Fleet).Schedule, wait(time.Minute))
}

// reportRunning reports that the allocations of the job web on a node run.
func reportRunning(node string) func(*schedtest.Fleet) {
	return func(f *schedtest.Fleet) {
		for _, a := range f.Allocs("web") {
			if a.NodeID == node {
				f.Report(a, &structs.AllocClientUpdate{ClientStatus: structs.AllocRunning})
			}
		}
		f.Schedule()
	}
}
