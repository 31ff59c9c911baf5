package explain

import (
	"strings"
	"testing"
	"time"

	"berth/scheduler/schedtest"
	"berth/state/clustertime"
	"berth/structs"
	"berth/structs/cluster"
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

// stepClock lets the cluster time follow clocks that were ahead for two minutes.
func stepClock(f *schedtest.Fleet) {
	row := cluster.ClusterTime{Time: f.Clock.UnixNano(), Since: f.Clock.Add(-2 * time.Minute).UnixNano()}
	f.Clock = f.Clock.Add(30 * time.Hour)
	row = clustertime.Accept(&row, clustertime.Reading{Wall: f.Clock.UnixNano()})
	schedtest.Do(f, clustertime.Put, &cluster.ClusterTimeRequest{Clock: row})
}

// A step of the cluster time is no time for which a node was down.
func TestWhy_CountsNoStepOfTheClusterTime(t *testing.T) {
	f := schedtest.New(t, 1)
	away(structs.DisconnectStrategy{LostAfter: time.Hour})(f)
	stepClock(f)
	_, reasons := explainSubject(f, situation{})
	text := structs.WhyText(reasons)
	for _, want := range []string{"node n0 has been down for 1m0s", "it is lost in 59m0s"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
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
