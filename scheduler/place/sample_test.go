package place

import (
	"testing"
	"time"

	"berth/scheduler/feasible"
	"berth/state"
	"berth/structs"
)

func TestSample_TriesAChangedNodeAnew(t *testing.T) {
	n := &structs.Node{
		ID:            "n1",
		NodeResources: &structs.NodeResources{CPU: structs.NodeCPUResources{CpuShares: 1000}},
	}
	g := &structs.TaskGroup{
		Name:          "g",
		Count:         1,
		EphemeralDisk: &structs.EphemeralDisk{},
		Tasks:         []*structs.Task{{Name: "t", Resources: &structs.Resources{CPU: 100}}},
	}
	o := feasible.NewOutlook(state.New().Read(), &structs.Evaluation{JobID: "new"}, time.Time{})
	p := New(o, Options{Enough: Enough})
	placed := newPlacement(p.AddGroup(o.Compile(&structs.Job{ID: "new"}, g)), 0)
	mean := func() float64 {
		s := sample{repeats: p.repeats(&placed)}
		s.try(o, &placed, &nodeClass{}, &candidate{node: n})
		return s.top[0].mean
	}
	first := mean()
	repeated := mean()
	o.Add(&structs.Allocation{ID: "a", NodeID: "n1", JobID: "new"}, &placed.demand, o.ViewOf(n))
	if fuller := mean(); repeated != first || fuller == first {
		t.Errorf("the scores are %v, %v again, and then %v on a fuller node", first, repeated, fuller)
	}
}
